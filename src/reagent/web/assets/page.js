/* The page: send requests to the service, show the results, and keep the address of the page up to date. */
import { byId } from "./elements.js";
import { createRequestForm, requestOf, sliceText } from "./form.js";
import { drawHistory, markHistory } from "./history.js";
import * as result from "./result.js";
import { callApi, watchJob } from "./service.js";

const encoded = encodeURIComponent;

let form = null;
let formats = []; // of the downloads
let current = []; // the entries that the result shows: one, or one for each compared method

const showError = (text) => (byId("error-message").textContent = text);
const announce = (text) => (byId("status-message").textContent = text);

const showingErrors = async (action) => {
  try {
    return await action();
  } catch (error) {
    showError(error.message);
    return null;
  }
};

function setCurrent(entries) {
  for (const { unwatch } of current) unwatch?.();
  current = entries;
  showError("");
  announce("");
  result.clearResult();
  result.drawProgress(entries);
}

// --- jobs ---

async function submitRequests(requests) {
  cancelJobs(current.filter(result.isRunning));
  const entries = requests.map((request) => ({ request, state: "running" }));
  setCurrent(entries);
  announce("Request sent");
  if (byId("result").getBoundingClientRect().top > innerHeight / 2) byId("result").scrollIntoView();
  for (const entry of entries) {
    const job = await showingErrors(() => callApi("jobs", "POST", entry.request));
    entry.id = job?.id;
    if (current !== entries) return cancelJobs([entry]); // another request was submitted meanwhile
    if (!job) return stopAll("failed");
    watchEntry(entry);
  }
  return history.pushState(null, "", result.addressOf("j", entries));
}

function watchEntry(entry) {
  const entries = current;
  entry.unwatch = watchJob(entry.id, (type, data) => {
    if (current === entries) handleEvent(entry, type, data);
  });
}

function handleEvent(entry, type, data) {
  if (type === "disconnected") showError(`${data.error} Trying again …`);
  else if (entry.disconnected) showError("");
  entry.disconnected = type === "disconnected";
  if (type === "state") entry.jobState = data.state;
  else if (type === "token") showAnswer(entry, data.text);
  else if (type === "progress") entry.progress = data;
  else if (type === "partial") showPartial(entry, data);
  else if (type === "done") showFinal(entry, data);
  else if (type === "failed") stopAll("failed", data.error);
  else if (type === "cancelled") stopAll("cancelled");
  result.drawProgress(current);
}

function showAnswer(entry, text) {
  entry.answer = text;
  if (entry === current[0] && !current.some(({ view }) => view)) result.drawAnswer(entry);
}

function showPartial(entry, view) {
  if (!current.some((other) => other.view)) announce("First partial result; it is refined until the job ends");
  entry.view = view;
  result.drawViews(current);
}

async function showFinal(entry, view) {
  const entries = current;
  Object.assign(entry, { view, state: "done" });
  result.drawViews(entries);
  const explanation = await showingErrors(() => callApi(`explanations/${encoded(entry.id)}`));
  if (current !== entries || !explanation) return;
  entry.explanation = explanation;
  if (!entries.every((other) => other.explanation)) return;
  history.replaceState(null, "", result.addressOf("e", entries));
  if (!entries[0].request) fillForm(entries); // the page was opened while the job was running
  announce("Done: select a token of the output");
  result.drawDownloads(entries, formats);
  await updateHistory();
}

// If one entry fails or is cancelled, the others are cancelled too.
function stopAll(state, error = "") {
  const running = current.filter(result.isRunning);
  cancelJobs(running);
  for (const entry of running) entry.state = state;
  if (error) showError(error);
  announce(state === "cancelled" ? "Cancelled" : "");
  result.drawProgress(current);
}

function cancelJobs(entries) {
  for (const { id, unwatch } of entries) {
    unwatch?.();
    if (id) callApi(`jobs/${encoded(id)}`, "DELETE").catch(() => {}); // the job may have ended already
  }
}

// --- finished explanations: saved by the service, or opened from files ---

async function showExplanations(explanations, ids = []) {
  const views = await Promise.all(explanations.map((explanation) => callApi("view", "POST", explanation)));
  setCurrent(explanations.map((explanation, i) => ({ explanation, view: views[i], id: ids[i], state: "done" })));
  fillForm(current);
  result.drawViews(current);
  result.drawDownloads(current, formats);
  markHistory(current);
}

const fillForm = ([{ explanation }, other]) => form.fill(explanation, other?.explanation.method.id);

async function openFiles(files) {
  if (!files.length) return;
  await showingErrors(async () => {
    await showExplanations(await Promise.all([...files].map(readFile)));
    history.pushState(null, "", location.pathname);
    byId("result").focus();
  });
}

async function readFile(file) {
  try {
    return JSON.parse(await file.text());
  } catch {
    throw new Error(`${file.name} is not JSON: open a file that reagent saved`);
  }
}

async function updateHistory() {
  drawHistory((await showingErrors(() => callApi("explanations"))) ?? []);
  markHistory(current);
}

// --- contrast: why this output and not another one ---

// The alternative replaces the selected token and everything after it. It gets the leading space of that token.
function contrastText({ completion, output }, alternative) {
  const token = output[result.selectedOutput()];
  const space = /^\s/.test(token.text) && /^[\p{L}\p{N}]/u.test(alternative) ? token.text[0] : "";
  return sliceText(completion, 0, token.start) + space + alternative;
}

const contrastRequest = ({ request, explanation }, alternative) => ({
  ...(request ?? requestOf(explanation)),
  contrast: contrastText(explanation, alternative),
});

// --- addresses: #/e/ID is a saved explanation, #/j/ID is a job; several ids are compared ---

async function openAddress() {
  await showingErrors(async () => {
    const [, kind, ...ids] = location.hash.split("/").map(decodeURIComponent);
    if (kind === "e" && ids.length)
      await showExplanations(await Promise.all(ids.map((id) => callApi(`explanations/${encoded(id)}`))), ids);
    else if (kind === "j" && ids.length) watchJobs(ids);
  });
}

function watchJobs(ids) {
  setCurrent(ids.map((id) => ({ id, state: "running" })));
  for (const entry of current) watchEntry(entry);
}

// --- start of the page ---

const onSubmit = (id, action) =>
  byId(id).addEventListener("submit", (event) => {
    event.preventDefault();
    action();
  });

async function start() {
  const options = await showingErrors(() => callApi("options"));
  if (!options) return;
  form = createRequestForm(byId("request-form"), options);
  formats = ["HTML", "JSON", "PNG"];
  byId("model").querySelector(".value").textContent = options.models.join(", ");
  byId("model").hidden = false;
  byId("explain").disabled = false;
  onSubmit("request-form", () => submitRequests(form.buildRequests()));
  onSubmit("contrast", () => submitRequests(current.map((entry) => contrastRequest(entry, byId("alternative").value))));
  byId("example").addEventListener("click", form.fillExample);
  byId("cancel").addEventListener("click", () => stopAll("cancelled"));
  byId("file").addEventListener("change", ({ target }) => openFiles(target.files));
  addEventListener("hashchange", openAddress);
  const updateLabel = () => result.labelContrast(current[0]?.view);
  new MutationObserver(updateLabel).observe(byId("result"), { subtree: true, attributeFilter: ["data-target"] });
  acceptDroppedFiles();
  await Promise.all([updateHistory(), openAddress()]);
}

function acceptDroppedFiles() {
  const showDropArea = (visible) => document.body.classList.toggle("dropping", visible);
  addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return; // text can be dropped into fields
    event.preventDefault();
    showDropArea(true);
  });
  addEventListener("dragleave", ({ relatedTarget }) => relatedTarget || showDropArea(false));
  addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    showDropArea(false);
    openFiles(event.dataTransfer.files);
  });
}

start();
