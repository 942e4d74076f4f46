"""Language models for tests: a server that speaks chat completions, and a tiny LLaMA with random weights."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def chat_server(
    say, status_of=lambda n: 200, reply=None, models=None, fault=lambda request: None, usage=None, tags=None
):
    """Serve chat completions on 127.0.0.1; yield the URL and the growing list of requests.

    Args:
        say: Maps messages to the reply's text, or to a full choice.
        status_of: Maps the number of a request, from 1, to its HTTP status.
        reply: Sent in place of a full chat completion.
        models: Entries of the model list; None disables the list.
        fault: Maps a request to None, or to a function of the handler that sends another response.
        usage: Token counts of each completion.
        tags: Entries of Ollama's own list; None disables the list.
    """
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/v1/models" and models is not None:
                self.send(200, {"object": "list", "data": models})
            elif self.path == "/api/tags" and tags is not None:
                self.send(200, {"models": tags})
            else:
                self.send(404, {"error": {"message": "there is no such page"}})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
            status, send_fault = status_of(len(requests)), fault(requests[-1])
            if send_fault is not None:
                send_fault(self)
            elif status == 200:
                self.send(status, self.completion(body) if reply is None else reply)
            else:
                self.send(status, {"error": {"message": f"the model {body['model']} does not exist"}})

        def completion(self, body):
            reply_text = say(body["messages"])
            choice = (
                reply_text
                if isinstance(reply_text, dict)
                else {"message": {"content": reply_text}, "finish_reason": "stop"}
            )
            choice = {"index": 0, **choice, "message": {"role": "assistant", **choice["message"]}}
            usage_entry = {"usage": usage} if usage else {}
            return {"id": "1", "object": "chat.completion", "model": body["model"], "choices": [choice], **usage_entry}

        def send(self, status, content, **headers):
            self.send_text(status, json.dumps(content), **headers)

        def send_text(self, status, text, **headers):
            sent = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)  # else half a second to its end
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}/v1", requests
        finally:
            http.shutdown()
            thread.join()


def save_tiny_llama(folder):
    """A randomly initialised LlamaForCausalLM with a byte-level tokenizer and a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<pad>", "</s>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>")
    fast.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
    fast.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=4096, pad_token_id=0, eos_token_id=1, bos_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder
