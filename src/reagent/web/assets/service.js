/* Calls to the service. Every failure becomes an Error with a one-line message. */

const NO_CONNECTION = "the service does not answer: is reagent serve still running?";
const LAST_EVENTS = ["done", "failed", "cancelled"];
const EVENTS = ["state", "token", "progress", "partial", ...LAST_EVENTS];

export async function callApi(path, method = "GET", body = undefined) {
  const options = body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(`api/${path}`, { method, ...options }).catch(() => {
    throw new Error(NO_CONNECTION);
  });
  const data = await response.json().catch(() => null);
  if (response.ok) return data;
  throw new Error(data?.error ?? `the service answers ${response.status} ${response.statusText}`);
}

/* Call `listener(type, data)` for every event of a job until it ends, and with type "disconnected" while the
   service cannot be reached. Return a function that stops watching. */
export function watchJob(id, listener) {
  const source = new EventSource(`api/jobs/${encodeURIComponent(id)}/events`);
  for (const type of EVENTS) {
    source.addEventListener(type, (event) => {
      if (LAST_EVENTS.includes(type)) source.close();
      listener(type, JSON.parse(event.data || "null"));
    });
  }
  source.addEventListener("error", () => {
    if (source.readyState !== EventSource.CLOSED) listener("disconnected", { error: NO_CONNECTION }); // the browser retries
    else callApi(`jobs/${encodeURIComponent(id)}`).catch((error) => listener("failed", { error: error.message }));
  });
  return () => source.close();
}
