"""Why did a model behind an API say that?"""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import log

import reagent


class Server(BaseHTTPRequestHandler):  # a stand-in for vLLM, llama.cpp or a hosted model
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        yes = log(0.9 if "refund" in str(body.get("prompt")) else 0.2)
        listed = {"tokens": [" yes"], "token_logprobs": [yes], "top_logprobs": [{" yes": yes, " no": log(0.1)}]}
        reply = json.dumps({"choices": [{"text": " yes", "logprobs": listed}]}).encode()
        self.send_response(200 if self.path == "/v1/completions" else 404)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
model = reagent.load_model(f"http://127.0.0.1:{server.server_port}#any")
why = reagent.explain(model, "Urgent? I want a refund for my ticket", max_new_tokens=1, probes=32)
print("why", why.completion, "after", why.cost.requests, "requests:", *(word.token.text for word in why.top(1)))
server.shutdown()
