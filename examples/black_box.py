"""Why did a model behind an API say that?"""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import log

import reagent


class Server(BaseHTTPRequestHandler):  # in place of vLLM, llama.cpp or a hosted model
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        yes = log(0.9 if "refund" in str(body.get("prompt")) else 0.2)
        logprobs = {"tokens": [" yes"], "token_logprobs": [yes], "top_logprobs": [{" yes": yes, " no": log(0.1)}]}
        reply = {"choices": [{"text": " yes", "logprobs": logprobs}]}
        self.send_response(200 if self.path == "/v1/completions" else 404)
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    def log_message(self, *_): ...


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
model = reagent.load_model(f"http://127.0.0.1:{server.server_port}#any")  # give the address of your server
why = reagent.explain(model, "Urgent? I want a refund for my ticket", max_new_tokens=1, probes=32)
print(f"why{why.completion}, after {why.cost.requests} requests:", why.top(1)[0].token.text.strip())
server.shutdown()
