/* The form: convert it to requests, and fill it from a request or an explanation. */
import { requestOf } from "./requests.js";
import { createTextList } from "./text_list.js";

export const EXAMPLE =
  "My aunt moved to Japan to teach music. (Her old piano is still standing in our garage). She rents a small flat in the capital,";
const PROMPT_LABELS = { text: "Prompt", chat: "Last message of the user" };

export function createRequestForm(form, options) {
  const { kind, system, prompt, method, preset, unit, compare, target, target_span, answer_span, attribute_target, what_if } = form.elements;
  const { max_new_tokens, removal, replacer, seed, probes } = form.elements;
  const part = (id) => form.querySelector(`#${id}`);
  const turns = createTextList(part("turns"), "Message", { roles: ["user", "assistant"] });
  const selectedMethod = () => options.methods.find(({ id }) => id === method.value);
  const selectedPreset = () => selectedMethod().presets.find(({ id }) => id === preset.value);

  const setChoices = (select, entries) => {
    const value = select.value;
    select.replaceChildren(...entries.map(({ id, label = id }) => new Option(label, id)));
    choose(select, value);
  };
  const choose = (select, value) => {
    if ([...select.options].some((option) => option.value === value)) select.value = value;
  };

  // Show, hide, enable and describe the fields that depend on other fields.
  const updateFields = () => {
    updateKind();
    const { presets, summary } = selectedMethod();
    setChoices(preset, presets);
    preset.disabled = presets.length < 2;
    const { removals, replaces, probes: takesProbes, what_if: takesWhatIf } = selectedPreset();
    setChoices(removal, [{ id: "", label: "default" }, ...removals.map((id) => ({ id }))]);
    removal.disabled = part("removal-field").hidden = !removals.length;
    replacer.disabled = removal.value ? removal.value !== "replace" : !replaces;
    probes.disabled = !takesProbes;
    what_if.disabled = !takesWhatIf;
    part("method-note").textContent = `${method.value} ${summary}. ${presets.length < 2 ? "" : `${preset.value}: ${selectedPreset().summary}.`}`;
  };

  // Disabled fields are not checked by the browser, so that an empty field of another kind stops nothing.
  const updateKind = () => {
    part("chat-fields").hidden = part("chat-fields").disabled = kind.value !== "chat";
    part("add-turn").hidden = kind.value !== "chat";
    part("prompt-label").textContent = PROMPT_LABELS[kind.value];
  };

  // --- from the form to requests ---

  const numberOf = (field) => (field.value === "" || field.disabled ? {} : { [field.name]: Number(field.value) });
  const textOf = (field) => (field.value === "" || field.disabled ? {} : { [field.name]: field.value });

  const readPrompt = () => {
    if (kind.value === "text") return { prompt: prompt.value };
    const systemMessages = system.value.trim() ? [{ role: "system", content: system.value }] : [];
    return { messages: [...systemMessages, ...turns.read(), { role: "user", content: prompt.value }] };
  };

  const commonFields = () => ({
    ...readPrompt(),
    ...textOf(target),
    ...textOf(target_span),
    ...textOf(answer_span),
    ...numberOf(max_new_tokens),
    ...numberOf(seed),
    ...textOf(unit),
  });
  // The published presets explain by the whole context. A comparison with one of them asks the same of both methods.
  const contextOf = (...presets) =>
    attribute_target.checked || (presets.length > 1 && presets.some(({ id }) => id.startsWith("paper"))) ? { attribute_target: true } : {};
  const whatIfOf = (preset) => (what_if.checked && preset.what_if ? { what_if: true } : {});

  // One request, or two for a comparison; the second method has its default settings.
  const buildRequests = () => {
    const settings = { ...textOf(preset), ...textOf(removal), ...textOf(replacer), ...numberOf(probes) };
    const other = options.methods.find(({ id }) => id === compare.value);
    const context = contextOf(selectedPreset(), ...(other?.presets.slice(0, 1) ?? []));
    const first = { ...commonFields(), ...context, method: method.value, ...settings, ...whatIfOf(selectedPreset()) };
    if (!other) return [first];
    const [itsPreset] = other.presets;
    const itsReplacer = itsPreset.replaces ? { replacer: replacer.value } : {};
    return [first, { ...commonFields(), ...context, method: other.id, ...itsReplacer, ...whatIfOf(itsPreset) }];
  };

  // --- from requests to the form ---

  const reset = () => {
    form.reset();
    turns.fill([]);
  };

  const fillPrompt = (request) => {
    const messages = [...(request.messages ?? [])];
    kind.value = messages.length ? "chat" : "text";
    system.value = messages[0]?.role === "system" ? messages.shift().content : "";
    prompt.value = messages.pop()?.content ?? request.prompt;
    turns.fill(messages);
  };

  const fill = (request, comparedMethod = "") => {
    const tokens = request.max_new_tokens ?? max_new_tokens.value;
    reset();
    max_new_tokens.value = tokens;
    fillPrompt(request);
    choose(method, request.method);
    updateFields();
    choose(preset, request.preset);
    updateFields();
    for (const field of [removal, replacer, unit]) choose(field, request[field.name]);
    choose(compare, comparedMethod);
    for (const field of [seed, probes, target, target_span, answer_span]) field.value = request[field.name] ?? field.defaultValue;
    attribute_target.checked = request.attribute_target ?? false;
    what_if.checked = request.what_if ?? false;
    updateFields();
  };

  // The form asks the model again, so the output is not filled in. Default settings stay defaults.
  const fillExplanation = (explanation, comparedMethod) => {
    const unit = explanation.display_unit ? "" : explanation.unit;
    const { target, removal, ...request } = { ...requestOf(explanation), unit };
    const presets = options.methods.find(({ id }) => id === request.method)?.presets;
    const isDefault = presets?.find(({ id }) => id === request.preset)?.removal === removal;
    fill({ ...request, ...(isDefault ? {} : { removal }) }, comparedMethod);
  };

  const fillExample = () => {
    reset();
    prompt.value = EXAMPLE;
    updateFields();
  };

  // The last message becomes an earlier one, and the answer to it follows.
  const addTurn = () => {
    if (prompt.value.trim()) turns.add({ role: "user", content: prompt.value });
    prompt.value = "";
    turns.add({ role: "assistant" }).focus();
  };

  setChoices(method, options.methods);
  setChoices(compare, [{ id: "", label: "nothing" }, ...options.methods]);
  setChoices(replacer, options.replacers);
  setChoices(unit, ["", ...options.units].map((id) => ({ id, label: id || "default" }))); // tokens, shown as words
  max_new_tokens.max = options.limits.new_tokens;
  max_new_tokens.defaultValue = Math.min(max_new_tokens.defaultValue, options.limits.new_tokens);
  probes.max = options.limits.probes;
  for (const radio of kind) if (radio.value === "chat") radio.disabled = !options.chat;
  form.addEventListener("change", updateFields);
  form.addEventListener("keydown", (event) => {
    const wanted = event.key === "Enter" && (event.ctrlKey || event.metaKey);
    if (wanted && event.target.matches("textarea")) form.requestSubmit();
  });
  part("add-turn").addEventListener("click", addTurn);
  part("example").addEventListener("click", fillExample);
  if (!prompt.value) fillExample();
  else updateFields();
  return { buildRequests, fill, fillExplanation };
}
