/* Talking to the service. Every failure becomes an Error whose message is one line for the reader. */

const SILENT = "the service does not answer: is reagent serve still running?";
const LAST = ["done", "failed", "cancelled"];
const EVENTS = ["state", "token", "progress", "partial", ...LAST];

export async function call(path, method = "GET", body = undefined) {
  const sent = body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(`api/${path}`, { method, ...sent }).catch(() => {
    throw new Error(SILENT);
  });
  const answer = await response.json().catch(() => null);
  if (response.ok) return answer;
  throw new Error(answer?.error ?? `the service answers ${response.status} ${response.statusText}`);
}

/* Tells `listener(type, data)` what becomes of a job, the last time when it ends; returns what stops it. */
export function watch(id, listener) {
  const source = new EventSource(`api/jobs/${encodeURIComponent(id)}/events`);
  for (const type of EVENTS) {
    source.addEventListener(type, (event) => {
      if (LAST.includes(type)) source.close();
      listener(type, JSON.parse(event.data || "null"));
    });
  }
  source.addEventListener("error", () => {
    if (source.readyState !== EventSource.CLOSED) listener("silent", { error: SILENT }); // the browser tries again
    else call(`jobs/${encodeURIComponent(id)}`).catch((error) => listener("failed", { error: error.message }));
  });
  return () => source.close();
}
