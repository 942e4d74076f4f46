"use strict";

// Tables: sort by a column, copy as Markdown, CSV or LaTeX.

const cellsOf = (row) => [...row.cells].map((cell) => cell.textContent.trim());

function number(text) {
  const found = text.replace(/,/g, "").match(/^[<+\-−]?\s*[+\-]?\d+(\.\d+)?/);
  return found ? parseFloat(found[0].replace("<", "").replace("−", "-")) : null;
}

function compare(a, b) {
  const [x, y] = [number(a), number(b)];
  if (x !== null && y !== null) return x - y;
  if (x !== null || y !== null) return x !== null ? -1 : 1;
  return a.localeCompare(b);
}

function sortBy(table, column, descending) {
  const rows = [...table.tBodies[0].rows];
  const value = (row) => row.cells[column].textContent.trim();
  const unknown = (text) => text === "–" || text === "";
  rows.sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (unknown(x) !== unknown(y)) return unknown(x) ? 1 : -1;  // undefined values come last in both directions
    return (descending ? -1 : 1) * compare(x, y);
  });
  table.tBodies[0].append(...rows);
  [...table.tHead.rows[0].cells].forEach((cell, place) => {
    if (place === column) cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  });
}

for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = cell.textContent;
    cell.replaceChildren(button);
    button.addEventListener("click", () => sortBy(table, column, cell.getAttribute("aria-sort") === "ascending"));
  });
}

const rowsOf = (table) => [table.tHead.rows[0], ...table.tBodies[0].rows].map(cellsOf);
// A spreadsheet runs a cell that begins like a formula.
const csvCell = (text) => {
  const safe = /^[=+\-@\t\r\n＝＋－＠]/.test(text) && !/^[+\-]?[\d.,]+$/.test(text) ? "'" + text : text;
  return /[",\n]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
};
// The same escapes as in tables.py.
const LATEX = {
  "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "$<$", ">": "$>$", "–": "--",
  "→": "$\\to$", "Δ": "$\\Delta$", "κ": "$\\kappa$", "×": "$\\times$", "±": "$\\pm$", "·": "$\\cdot$", "≥": "$\\geq$",
  "≤": "$\\leq$", "−": "$-$", "|": "\\textbar{}", "…": "\\ldots{}", "“": "``", "”": "''", "\n": " ", "\r": " ",
  "⟨": "$\\langle$", "⟩": "$\\rangle$",
};
const latexCell = (text) => [...text].map((sign) => LATEX[sign] || ("{}$&#_%".includes(sign) ? "\\" + sign : sign)).join("");

const markdownCell = (text) => text.replace(/\\/g, "\\\\").replace(/\||<(?=[A-Za-z\/!?])/g, "\\$&").replace(/\](?=[(:])/g, "]\\").replace(/\n/g, " ");

const WRITE = {
  markdown(rows) {
    const line = (cells) => "| " + cells.map(markdownCell).join(" | ") + " |";
    return [line(rows[0]), "|" + "---|".repeat(rows[0].length), ...rows.slice(1).map(line)].join("\n");
  },
  csv: (rows) => rows.map((cells) => cells.map(csvCell).join(",")).join("\n"),
  latex(rows) {
    const line = (cells) => cells.map(latexCell).join(" & ") + " \\\\";
    return ["\\begin{tabular}{" + "l".repeat(rows[0].length) + "}", "\\hline", line(rows[0]), "\\hline", ...rows.slice(1).map(line), "\\hline", "\\end{tabular}"].join("\n");
  },
};

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // a page opened from disk may not have access to the clipboard
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  button.addEventListener("click", async () => {
    const table = button.closest("details").querySelector("table");
    await copy(WRITE[button.dataset.copy](rowsOf(table)) + "\n");
    const status = button.parentElement.querySelector("[role=status]");
    status.textContent = "Copied.";
    setTimeout(() => { status.textContent = ""; }, 2000);
  });
}

addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });

// Cases: a list with only its visible part in the document.

const HEIGHT = 44;
const { cases, texts } = JSON.parse(document.getElementById("data").textContent);
const [BENCHMARK, TASK, ID, QUESTION, GOLD, FINDING, OPTIONS, ANSWERS] = [0, 1, 2, 3, 4, 5, 6, 7];
const [MODEL, SHOWN, RAW, READ, WHY, ENDED, OUTCOME] = [0, 1, 2, 3, 4, 5, 6];
const MARK = { right: "✓ right", wrong: "✗ wrong", declined: "– declined", unread: "? unread" };
const pictured = JSON.parse(document.getElementById("pictures").textContent);
const layers = { region: true, boxes: true, heat: false };  // visible layers; the choice stays from case to case
const list = document.getElementById("list");

if (list) {
  const form = document.getElementById("filters");
  const space = document.getElementById("space");
  const lower = texts.map((text) => text.toLowerCase());
  let found = cases.map((_, place) => place);
  let chosen = -1;  // index in cases

  const element = (name, text, kind) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };

  const values = (column, inAnswers) => [...new Set(cases.flatMap((item) => (inAnswers ? item[ANSWERS].map((answer) => answer[column]) : [item[column]])))]
    .sort((a, b) => texts[a].localeCompare(texts[b]));
  const WHAT = { benchmark: [BENCHMARK, false], task: [TASK, false], finding: [FINDING, false], model: [MODEL, true], shown: [SHOWN, true], outcome: [OUTCOME, true] };
  for (const [name, [column, inAnswers]] of Object.entries(WHAT)) {
    for (const value of values(column, inAnswers)) {
      const option = element("option", texts[value] || "none");
      option.value = String(value);
      form.elements[name].append(option);
    }
  }

  function fits(item, place, wanted, words) {
    if (form.elements.pictured && form.elements.pictured.value && !pictured.cases[place]) return false;
    for (const name of ["benchmark", "task", "finding"]) {
      if (wanted[name] !== null && item[WHAT[name][0]] !== wanted[name]) return false;
    }
    const { model, shown, outcome } = wanted;
    const answers = item[ANSWERS].filter((answer) =>
      (model === null || answer[MODEL] === model) && (shown === null || answer[SHOWN] === shown) && (outcome === null || answer[OUTCOME] === outcome));
    if (!answers.length) return false;
    if (!words) return true;
    return [item[ID], item[QUESTION], item[GOLD], ...item[OPTIONS], ...answers.flatMap((answer) => [answer[RAW], answer[READ]])]
      .some((place) => lower[place].includes(words));
  }

  function filter() {
    const wanted = Object.fromEntries(Object.keys(WHAT).map((name) => [name, form.elements[name].value === "" ? null : Number(form.elements[name].value)]));
    const words = form.elements.words.value.trim().toLowerCase();
    found = cases.map((_, place) => place).filter((place) => fits(cases[place], place, wanted, words));
    document.getElementById("found").textContent = `${found.length.toLocaleString("en")} of ${cases.length.toLocaleString("en")} questions`;
    list.scrollTop = 0;
    draw();
  }

  function draw() {
    space.style.height = `${found.length * HEIGHT}px`;
    const first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - 5);
    const last = Math.min(found.length, first + Math.ceil(list.clientHeight / HEIGHT) + 10);
    const rows = [];
    for (let row = first; row < last; row += 1) {
      const item = cases[found[row]];
      const option = element("div");
      option.setAttribute("role", "option");
      option.id = `option-${found[row]}`;
      option.setAttribute("aria-selected", String(found[row] === chosen));
      option.setAttribute("aria-setsize", String(found.length));
      option.setAttribute("aria-posinset", String(row + 1));
      option.style.top = `${row * HEIGHT}px`;
      option.append(element("span", texts[item[QUESTION]]), element("span", texts[item[ID]]));
      option.addEventListener("click", () => choose(found[row]));
      rows.push(option);
    }
    space.replaceChildren(...rows);
    if (document.getElementById(`option-${chosen}`)) list.setAttribute("aria-activedescendant", `option-${chosen}`);
    else list.removeAttribute("aria-activedescendant");
  }

  function choose(place) {
    chosen = place;
    const row = found.indexOf(place);
    if (row >= 0) {
      const top = row * HEIGHT;
      if (top < list.scrollTop || top + HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top - list.clientHeight / 2;
    }
    draw();
    show(cases[place], place);
    history.replaceState(null, "", `#case=${encodeURIComponent(texts[cases[place][TASK]])}/${encodeURIComponent(texts[cases[place][ID]])}`);
  }

  const drawing = (name, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
    return node;
  };

  function layer(url, kind) {
    const image = element("img", undefined, `layer ${kind}`);
    image.src = url;
    image.alt = "";
    return image;
  }

  function picture([shown, url, width, height, region, boxes, heat], number, model) {
    const figure = element("figure");
    const frame = element("div", undefined, "frame");
    const base = element("img");
    base.src = pictured.urls[url];
    base.alt = `Picture ${number}: ${shown}`;
    frame.append(base);
    const looked = heat.find(([name]) => name === model);
    if (looked) frame.append(layer(pictured.urls[looked[1]], "heat"));
    if (region >= 0) frame.append(layer(pictured.urls[region], "region"));
    if (boxes.length) {
      const drawn = drawing("svg", { viewBox: `0 0 ${width} ${height}`, class: "layer boxes", "aria-hidden": "true" });
      for (const [label, x, y, w, h] of boxes) {
        const box = drawing("rect", { x, y, width: w, height: h });
        box.append(Object.assign(drawing("title", {}), { textContent: label }));
        drawn.append(box);
      }
      frame.append(drawn);
    }
    const named = boxes.length ? `; boxes: ${[...new Set(boxes.map(([label]) => label))].join(", ")}` : "";
    figure.append(frame, element("figcaption", shown + named));
    return figure;
  }

  function gallery(place) {
    const own = pictured.cases[place];
    if (!own) return [];
    const models = [...new Set(own.flatMap((entry) => entry[6].map(([model]) => model)))];
    const there = { region: own.some((entry) => entry[4] >= 0), boxes: own.some((entry) => entry[5].length), heat: models.length > 0 };
    const shownBy = element("div", undefined, "gallery");
    const switches = element("p", undefined, "switches");
    const select = element("select");
    for (const model of models) select.append(element("option", model));
    const fill = () => shownBy.replaceChildren(...own.map((entry, number) => picture(entry, number + 1, select.value)));
    for (const [kind, title] of [["region", "Region"], ["boxes", "Boxes"], ["heat", "Heatmap"]]) {
      if (!there[kind]) continue;
      const label = element("label");
      const box = element("input");
      box.type = "checkbox";
      box.checked = layers[kind];
      const apply = () => { layers[kind] = box.checked; shownBy.classList.toggle(`no-${kind}`, !box.checked); };
      box.addEventListener("change", apply);
      apply();
      label.append(box, ` ${title}`);
      switches.append(label);
    }
    if (models.length > 1) {
      const label = element("label", "Heatmap of ");
      label.append(select);
      select.addEventListener("change", fill);
      switches.append(label);
    }
    fill();
    return [switches, shownBy];
  }

  function show(item, place) {
    const article = document.getElementById("case");
    const options = element("ol");
    for (const option of item[OPTIONS]) options.append(element("li", texts[option]));
    const facts = element("dl");
    for (const [name, place] of [["Right answer", GOLD], ["About", FINDING], ["Task", TASK], ["Id", ID]]) {
      facts.append(element("dt", name), element("dd", texts[item[place]] || "–"));
    }
    const table = element("table");
    table.append(element("caption", "Answers"));
    const head = element("tr");
    for (const title of ["Model", "Shown", "Answer", "Read as", "Outcome"]) {
      const cell = element("th", title);
      cell.scope = "col";
      head.append(cell);
    }
    table.createTHead().append(head);
    const body = table.createTBody();
    for (const answer of item[ANSWERS]) {
      const line = body.insertRow();
      line.append(element("td", texts[answer[MODEL]]), element("td", texts[answer[SHOWN]]));
      const raw = element("td");
      const words = element("span", texts[answer[RAW]] || "–", "raw");
      if (words.textContent.length > 200) words.tabIndex = 0;  // it may scroll
      raw.append(words);
      const why = texts[answer[WHY]] ? ` (${texts[answer[WHY]]})` : "";
      const ended = texts[answer[ENDED]] ? `; after the verifier: ${texts[answer[ENDED]]}` : "";
      const outcome = texts[answer[OUTCOME]];
      line.append(raw, element("td", (texts[answer[READ]] || "–") + why + ended));
      line.append(element("td", MARK[outcome] || outcome, { right: "is-yes", wrong: "is-no", declined: "is-declined", unread: "is-open" }[outcome]));
    }
    const wide = element("div", undefined, "wide");
    wide.tabIndex = 0;
    wide.append(table);
    article.replaceChildren(element("h3", texts[item[QUESTION]]), options, facts, ...gallery(place), wide);
  }

  function open() {
    const [, task, id] = location.hash.match(/^#case=([^/]*)\/(.*)$/) || [];
    if (id === undefined) return;
    const [wantedTask, wantedId] = [decodeURIComponent(task), decodeURIComponent(id)];
    const place = cases.findIndex((item) => texts[item[TASK]] === wantedTask && texts[item[ID]] === wantedId);
    if (place < 0) return;
    form.reset();
    filter();
    choose(place);
    document.getElementById("cases").scrollIntoView();
  }

  list.addEventListener("scroll", draw);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || !found.length) return;
    event.preventDefault();
    const row = found.indexOf(chosen);
    choose(found[Math.min(found.length - 1, Math.max(0, (row < 0 ? -1 : row) + step))]);
  });
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", open);
  addEventListener("resize", draw);
  filter();
  open();
}
