from medfaith.cli import main

raise SystemExit(main())
