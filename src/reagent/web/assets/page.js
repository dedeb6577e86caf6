/* The page: send requests to the service, show the results, and keep the address of the page up to date. */
import { byId } from "./elements.js";
import { createRequestForm } from "./form.js";
import { drawHistory, drawPending, markHistory } from "./history.js";
import { contrastWith, requestOf, sliceText } from "./requests.js";
import * as result from "./result.js";
import { callApi, watchJob } from "./service.js";

const encoded = encodeURIComponent;
const PENDING_INTERVAL = 1000; // milliseconds between two requests for the queue, while it has jobs
const FORMATS = ["HTML", "JSON", "PNG"]; // of the downloads

let form = null;
let pending = []; // all jobs that run or wait, in the order of the queue
let pendingTimer = 0;
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

let sending = false;

// The jobs that run or wait already go on. Each has a link in the list of pending jobs.
async function submitRequests(requests) {
  if (sending) return;
  if (isShown(requests)) return void announce("This request is running already");
  sending = true;
  showError("");
  announce("Request sent");
  const entries = await showingErrors(() => sendRequests(requests));
  sending = false;
  if (entries) {
    setCurrent(entries);
    for (const entry of entries) watchEntry(entry);
    history.pushState(null, "", result.addressOf("j", entries));
    await updatePending();
  }
  result.scrollToResult();
}

const isShown = (requests) =>
  current.length > 0 &&
  current.every(result.isRunning) &&
  JSON.stringify(current.map(({ request }) => request)) === JSON.stringify(requests);

// All requests become jobs, or none.
async function sendRequests(requests) {
  const entries = [];
  try {
    for (const request of requests) {
      const { id } = await callApi("jobs", "POST", request);
      entries.push({ id, request, state: "running" });
    }
  } catch (error) {
    cancelJobs(entries);
    throw error;
  }
  return entries;
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
  drawView(entry, view);
}

function drawView(entry, view) {
  const isFirst = !current.some((other) => other.view);
  entry.view = view;
  result.drawViews(current);
  if (isFirst && !document.activeElement.matches("input, select, textarea")) result.scrollToResult();
}

async function showFinal(entry, view) {
  const entries = current;
  entry.state = "done";
  drawView(entry, view);
  const explanation = await showingErrors(() => callApi(`explanations/${encoded(entry.id)}`));
  if (current !== entries || !explanation) return;
  entry.explanation = explanation;
  if (!entries.every((other) => other.explanation)) return;
  history.replaceState(null, "", result.addressOf("e", entries));
  if (!entries[0].request) fillForm(entries); // the service has forgotten the request
  announce("Done: select a part of the answer");
  result.drawDownloads(entries, FORMATS);
  await Promise.all([updatePending(), updateHistory()]);
}

// If one entry fails or is cancelled, the others are cancelled too.
function stopAll(state, error = "") {
  const running = current.filter(result.isRunning);
  cancelJobs(running);
  for (const entry of running) entry.state = state;
  if (error) showError(error);
  announce(state === "cancelled" ? "Cancelled" : "");
  result.drawProgress(current);
  if (state === "cancelled") result.drawCancelled(current);
  updatePending();
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
  result.drawDownloads(current, FORMATS);
  markHistory(current);
}

const fillForm = ([{ explanation }, other]) => form.fillExplanation(explanation, other?.explanation.method.id);

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

// The history changes when a job ends.
async function updatePending() {
  clearTimeout(pendingTimer);
  const before = pending;
  pending = await callApi("jobs").catch(() => before); // the next call may succeed
  if (pending.length) pendingTimer = setTimeout(updatePending, PENDING_INTERVAL);
  for (const entry of current) entry.before = pending.findIndex(({ id }) => id === entry.id);
  result.drawProgress(current);
  if (JSON.stringify(pending) === JSON.stringify(before)) return;
  drawPending(pending);
  markHistory(current);
  if (before.some(({ id }) => !pending.some((job) => job.id === id))) await updateHistory();
}

async function updateHistory() {
  drawHistory((await showingErrors(() => callApi("explanations"))) ?? []);
  markHistory(current);
}

// --- contrast: why this output and not another one ---

// The alternative replaces the selected part of the answer and everything after it. It gets the space before that part.
function contrastText({ completion }, view, alternative) {
  const { textStart } = result.selectedRow(view);
  const next = sliceText(completion, textStart, textStart + 1);
  const space = /^\s/.test(next) && /^[\p{L}\p{N}]/u.test(alternative) ? next : "";
  return sliceText(completion, 0, textStart) + space + alternative;
}

const contrastRequest = ({ request, explanation, view }, alternative) =>
  contrastWith(request ?? requestOf(explanation), contrastText(explanation, view, alternative));

// --- addresses: #/e/ID is a saved explanation, #/j/ID is a job; several ids are compared ---

async function openAddress() {
  await showingErrors(async () => {
    const [, kind, ...ids] = location.hash.split("/").map(decodeURIComponent);
    if (kind === "e" && ids.length)
      await showExplanations(await Promise.all(ids.map((id) => callApi(`explanations/${encoded(id)}`))), ids);
    else if (kind === "j" && ids.length) await showJobs(ids);
    else return;
    result.scrollToResult();
  });
}

async function showJobs(ids) {
  const jobs = await Promise.all(ids.map((id) => callApi(`jobs/${encoded(id)}`)));
  setCurrent(jobs.map(({ id, request }) => ({ id, request, state: "running" })));
  const [first, second] = jobs;
  if (first.request) form.fill(first.request, second?.request?.method);
  for (const entry of current) watchEntry(entry);
  markHistory(current);
}

// --- start of the page ---

const onSubmit = (id, action) =>
  byId(id).addEventListener("submit", (event) => {
    event.preventDefault();
    action();
  });

async function start() {
  showLoading("");
  try {
    startPage(await callApi("options"));
  } catch (error) {
    showLoading(error.message);
  }
}

// The form is disabled until its options are loaded; `error` says why they are not.
function showLoading(error) {
  byId("loading").hidden = error !== "";
  byId("loading-failed").hidden = error === "";
  byId("loading-failed").querySelector("p").textContent = error && `The options of the form cannot be loaded: ${error}`;
}

function startPage(options) {
  form = createRequestForm(byId("request-form"), options);
  byId("request-form").setAttribute("aria-busy", "false");
  byId("request-fields").disabled = false;
  byId("loading").hidden = true;
  byId("model").querySelector(".value").textContent = options.models.join(", ");
  byId("model").hidden = false;
  onSubmit("request-form", () => submitRequests(form.buildRequests()));
  onSubmit("contrast", () => submitRequests(current.map((entry) => contrastRequest(entry, byId("alternative").value))));
  byId("cancel").addEventListener("click", () => stopAll("cancelled"));
  byId("run-again").addEventListener("click", () => submitRequests(current.map(({ request }) => request)));
  byId("file").addEventListener("change", ({ target }) => openFiles(target.files));
  addEventListener("hashchange", openAddress);
  document.querySelector(".side").addEventListener("click", ({ target }) => {
    if (target.closest("a")?.hash === location.hash) result.scrollToResult(); // the result is shown already
  });
  const updateLabel = () => result.labelContrast(current[0]?.view);
  new MutationObserver(updateLabel).observe(byId("result"), { subtree: true, attributeFilter: ["data-target"] });
  acceptDroppedFiles();
  updateHistory();
  openAddress().then(updatePending);
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

byId("retry").addEventListener("click", start);
start();
