/* The page: asks the service, shows what comes back, and keeps the address in step. */
import { at } from "./elements.js";
import { cut, questionForm, requestOf } from "./form.js";
import { listHistory, markHistory } from "./history.js";
import * as result from "./result.js";
import { call, watch } from "./service.js";

const encoded = encodeURIComponent;

let form = null;
let kinds = []; // what an explanation can be downloaded as
let shown = []; // what the result is about: one entry, or one for each method that is compared

const sayWrong = (text) => (at("message").textContent = text);
const sayState = (text) => (at("state").textContent = text);

const attempt = async (act) => {
  try {
    return await act();
  } catch (error) {
    sayWrong(error.message);
    return null;
  }
};

function show(entries) {
  for (const { unwatch } of shown) unwatch?.();
  shown = entries;
  sayWrong("");
  sayState("");
  result.clearResult();
  result.drawRunning(entries);
}

// --- jobs ---

async function ask(requests) {
  cancel(shown.filter(result.isRunning));
  const entries = requests.map((request) => ({ request, state: "running" }));
  show(entries);
  sayState("Asking the model");
  if (at("result").getBoundingClientRect().top > innerHeight / 2) at("result").scrollIntoView();
  for (const entry of entries) {
    const job = await attempt(() => call("jobs", "POST", entry.request));
    entry.id = job?.id;
    if (shown !== entries) return cancel([entry]); // something else was asked meanwhile
    if (!job) return stop("failed");
    follow(entry);
  }
  return history.pushState(null, "", result.addressOf("j", entries));
}

function follow(entry) {
  const entries = shown;
  entry.unwatch = watch(entry.id, (type, data) => {
    if (shown === entries) hear(entry, type, data);
  });
}

function hear(entry, type, data) {
  if (type === "silent") sayWrong(`${data.error} Trying again …`);
  else if (entry.silent) sayWrong("");
  entry.silent = type === "silent";
  if (type === "state") entry.place = data.state;
  else if (type === "token") answer(entry, data.text);
  else if (type === "progress") entry.progress = data;
  else if (type === "partial") refine(entry, data);
  else if (type === "done") finish(entry, data);
  else if (type === "failed") stop("failed", data.error);
  else if (type === "cancelled") stop("cancelled");
  result.drawRunning(shown);
}

function answer(entry, text) {
  entry.said = text;
  if (entry === shown[0] && !shown.some(({ view }) => view)) result.drawAnswer(entry);
}

function refine(entry, view) {
  if (!shown.some((other) => other.view)) sayState("A first result is there and gets better");
  entry.view = view;
  result.drawViews(shown);
}

async function finish(entry, view) {
  const entries = shown;
  Object.assign(entry, { view, state: "done" });
  result.drawViews(entries);
  const explanation = await attempt(() => call(`explanations/${encoded(entry.id)}`));
  if (shown !== entries || !explanation) return;
  entry.explanation = explanation;
  if (!entries.every((other) => other.explanation)) return;
  history.replaceState(null, "", result.addressOf("e", entries));
  if (!entries[0].request) fill(entries); // the page was opened while the job ran
  sayState("Done: choose a token of the output");
  result.drawKeep(entries, kinds);
  await remember();
}

// One that fails or is cancelled takes the others along.
function stop(state, wrong = "") {
  const running = shown.filter(result.isRunning);
  cancel(running);
  for (const entry of running) entry.state = state;
  if (wrong) sayWrong(wrong);
  sayState(state === "cancelled" ? "Cancelled" : "");
  result.drawRunning(shown);
}

function cancel(entries) {
  for (const { id, unwatch } of entries) {
    unwatch?.();
    if (id) call(`jobs/${encoded(id)}`, "DELETE").catch(() => {}); // it may have ended by itself
  }
}

// --- explanations that are there: saved ones, or files ---

async function look(explanations, ids = []) {
  const views = await Promise.all(explanations.map((explanation) => call("view", "POST", explanation)));
  show(explanations.map((explanation, i) => ({ explanation, view: views[i], id: ids[i], state: "done" })));
  fill(shown);
  result.drawViews(shown);
  result.drawKeep(shown, kinds);
  markHistory(shown);
}

const fill = ([{ explanation }, other]) => form.fill(explanation, other?.explanation.method.id);

async function openFiles(files) {
  if (!files.length) return;
  await attempt(async () => {
    await look(await Promise.all([...files].map(read)));
    history.pushState(null, "", location.pathname);
    at("result").focus();
  });
}

async function read(file) {
  try {
    return JSON.parse(await file.text());
  } catch {
    throw new Error(`${file.name} is not JSON: drop a file that reagent saved`);
  }
}

async function remember() {
  listHistory((await attempt(() => call("explanations"))) ?? []);
  markHistory(shown);
}

// --- why this and not that ---

// The alternative replaces the chosen token and all that follows. A space that the token begins with is meant, too.
function alternative({ completion, output }, text) {
  const token = output[result.chosen()];
  const space = /^\s/.test(token.text) && /^[\p{L}\p{N}]/u.test(text) ? token.text[0] : "";
  return cut(completion, 0, token.start) + space + text;
}

const contrasted = (text) => ({ request, explanation }) => ({
  ...(request ?? requestOf(explanation)),
  contrast: alternative(explanation, text),
});

// --- addresses: #/e/ID of a saved explanation, #/j/ID of a job; several ids are compared ---

async function route() {
  await attempt(async () => {
    const [, kind, ...ids] = location.hash.split("/").map(decodeURIComponent);
    if (kind === "e" && ids.length) await look(await Promise.all(ids.map((id) => call(`explanations/${encoded(id)}`))), ids);
    else if (kind === "j" && ids.length) resume(ids);
  });
}

function resume(ids) {
  show(ids.map((id) => ({ id, state: "running" })));
  for (const entry of shown) follow(entry);
}

// --- from here on it lives ---

const submitted = (id, act) =>
  at(id).addEventListener("submit", (event) => {
    event.preventDefault();
    act();
  });

async function start() {
  const options = await attempt(() => call("options"));
  if (!options) return;
  form = questionForm(at("ask"), options);
  kinds = ["HTML", "JSON", ...(options.png ? ["PNG"] : [])];
  at("model").querySelector(".value").textContent = options.models.join(", ");
  at("model").hidden = false;
  at("explain").disabled = false;
  submitted("ask", () => ask(form.requests()));
  submitted("contrast", () => ask(shown.map(contrasted(at("instead").value))));
  at("example").addEventListener("click", form.example);
  at("cancel").addEventListener("click", () => stop("cancelled"));
  at("file").addEventListener("change", ({ target }) => openFiles(target.files));
  addEventListener("hashchange", route);
  const name = () => result.nameContrast(shown[0]?.view);
  new MutationObserver(name).observe(at("result"), { subtree: true, attributeFilter: ["data-target"] });
  watchDrops();
  await Promise.all([remember(), route()]);
}

function watchDrops() {
  const mark = (on) => document.body.classList.toggle("dropping", on);
  addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return; // text is dropped into fields
    event.preventDefault();
    mark(true);
  });
  addEventListener("dragleave", ({ relatedTarget }) => relatedTarget || mark(false));
  addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    mark(false);
    openFiles(event.dataTransfer.files);
  });
}

start();
