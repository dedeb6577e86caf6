/* The page: send requests to the service, show the results, and keep the address of the page up to date. */
import { createCiteForm } from "./cite_form.js";
import { isDocumentFile } from "./documents.js";
import { byId } from "./elements.js";
import { createRequestForm } from "./form.js";
import { drawHistory, drawPending, markHistory } from "./history.js";
import { contrastWith, requestOf, sliceText } from "./requests.js";
import * as result from "./result.js";
import { callApi, watchJob } from "./service.js";
import { createTabs } from "./tabs.js";

const encoded = encodeURIComponent;
const PENDING_INTERVAL = 1000; // milliseconds between two requests for the queue, while it has jobs

let form = null;
let citeForm = null;
let tabs = null;
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
      const { id } = await callApi(request.documents ? "citations" : "jobs", "POST", request);
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
  const saved = await showingErrors(() => callApi(result.pathOf(entry)));
  if (current !== entries || !saved) return;
  entry.saved = saved;
  if (!entries.every((other) => other.saved)) return;
  history.replaceState(null, "", result.savedAddress(entries));
  if (!entries[0].request) fillForm(entries); // the service has forgotten the request
  announce("Done: select a part of the answer");
  result.drawDownloads(entries);
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

// --- finished results: saved by the service, or opened from files ---

async function showResults(results, ids = []) {
  const views = await Promise.all(results.map((saved) => callApi("view", "POST", saved)));
  setCurrent(results.map((saved, i) => ({ saved, view: views[i], id: ids[i], state: "done" })));
  fillForm(current);
  result.drawViews(current);
  result.drawDownloads(current);
  markHistory(current);
}

function fillForm([{ saved, view }, other]) {
  const isCitations = result.kindOf(view) === "citations";
  if (isCitations) citeForm.fillCitations(saved);
  else form.fillExplanation(saved, other?.saved.method?.id);
  tabs.select(isCitations ? "cite" : "explain");
}

function fillRequests([first, second]) {
  if (first.documents) citeForm.fill(first);
  else form.fill(first, second?.method);
  tabs.select(first.documents ? "cite" : "explain");
}

async function openFiles(files) {
  const documents = [...files].filter(isDocumentFile);
  const others = [...files].filter((file) => !isDocumentFile(file));
  showError("");
  if (documents.length) await addDocuments(documents);
  if (!others.length) return;
  await showingErrors(async () => {
    await showResults(await Promise.all(others.map(readFile)));
    history.pushState(null, "", location.pathname);
    byId("result").focus();
  });
}

async function addDocuments(files) {
  tabs.select("cite");
  await showingErrors(() => citeForm.addFiles(files));
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
  drawHistory((await showingErrors(() => callApi("history"))) ?? []);
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

const contrastRequest = ({ request, saved, view }, alternative) =>
  contrastWith(request ?? requestOf(saved), contrastText(saved, view, alternative));

// --- a model behind an API: the number of requests is told before ---

async function submitCitation(options) {
  const request = citeForm.buildRequest();
  byId("estimate").hidden = true;
  if (!options.server) return void submitRequests([request]);
  const cost = await showingErrors(() => callApi("citations/estimate", "POST", request));
  if (!cost) return;
  showError("");
  const [requests, tokens] = [cost.requests, cost.tokens].map((number) => number.toLocaleString("en"));
  const answering = request.answer ? "" : ", and one request for the answer";
  byId("estimate").querySelector("p").textContent = `At most ${requests} requests with ${tokens} tokens to ${options.models[0]}${answering}.`;
  byId("estimate").hidden = false;
  byId("estimate-start").onclick = () => {
    byId("estimate").hidden = true;
    submitRequests([request]);
  };
  byId("estimate-start").focus();
}

// --- addresses: #/e/ID is a saved explanation, #/c/ID are saved citations, #/j/ID is a job; several ids are compared;
// #/cite is the form for documents ---

const SAVED = { e: "explanations", c: "citations" };

async function openAddress() {
  await showingErrors(async () => {
    const [, kind, ...ids] = location.hash.split("/").map(decodeURIComponent);
    if (Object.hasOwn(SAVED, kind ?? "") && ids.length)
      await showResults(await Promise.all(ids.map((id) => callApi(`${SAVED[kind]}/${encoded(id)}`))), ids);
    else if (kind === "j" && ids.length) await showJobs(ids);
    else if (kind === "cite") return tabs.select("cite");
    else return;
    result.scrollToResult();
  });
}

async function showJobs(ids) {
  const jobs = await Promise.all(ids.map((id) => callApi(`jobs/${encoded(id)}`)));
  setCurrent(jobs.map(({ id, request }) => ({ id, request, state: "running" })));
  if (jobs.every(({ request }) => request)) fillRequests(jobs.map(({ request }) => request));
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
  citeForm = createCiteForm(byId("cite-form"), options);
  for (const id of ["request-form", "cite-form"]) byId(id).setAttribute("aria-busy", "false");
  for (const id of ["request-fields", "cite-fields"]) byId(id).disabled = false;
  byId("loading").hidden = true;
  byId("model").querySelector(".value").textContent = options.models.join(", ");
  byId("model").hidden = false;
  onSubmit("request-form", () => submitRequests(form.buildRequests()));
  onSubmit("cite-form", () => submitCitation(options));
  onSubmit("contrast", () => submitRequests(current.map((entry) => contrastRequest(entry, byId("alternative").value))));
  byId("cancel").addEventListener("click", () => stopAll("cancelled"));
  byId("run-again").addEventListener("click", () => submitRequests(current.map(({ request }) => request)));
  for (const id of ["file", "document-files"])
    byId(id).addEventListener("change", async ({ target }) => {
      await openFiles(target.files);
      target.value = ""; // the same file can be chosen again
    });
  byId("estimate-cancel").addEventListener("click", () => (byId("estimate").hidden = true));
  byId("cite-form").addEventListener("input", () => (byId("estimate").hidden = true)); // it belongs to another request
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
tabs = createTabs(["explain", "cite"]);
start();
