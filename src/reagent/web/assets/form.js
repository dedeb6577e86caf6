/* The form: convert it to requests, and fill it from an explanation. */

export const EXAMPLE =
  "My aunt moved to Japan to teach music. (Her old piano is still standing in our garage). She rents a small flat in the capital,";

export function createRequestForm(form, options) {
  const { kind, system, prompt, method, preset, unit, compare, target, max_new_tokens, removal, replacer, seed, probes } = form.elements;
  const removalField = form.querySelector("#removal-field");
  const systemField = form.querySelector("#system-field");
  const methodNote = form.querySelector("#method-note");
  const earlierNote = form.querySelector("#earlier-messages");
  let earlierMessages = []; // of an opened chat: those between the system message and the last message
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
    const { presets, summary } = selectedMethod();
    setChoices(preset, presets);
    preset.disabled = presets.length < 2;
    const { removals, replaces, probes: takesProbes } = selectedPreset();
    setChoices(removal, [{ id: "", label: "default" }, ...removals.map((id) => ({ id }))]);
    removal.disabled = removalField.hidden = !removals.length;
    replacer.disabled = removal.value ? removal.value !== "replace" : !replaces;
    probes.disabled = !takesProbes;
    systemField.hidden = kind.value !== "chat";
    earlierNote.hidden = kind.value !== "chat" || !earlierMessages.length;
    earlierNote.textContent = `The ${earlierMessages.length} earlier messages of the chat are included.`;
    methodNote.textContent = `${method.value} ${summary}. ${presets.length < 2 ? "" : `${preset.value}: ${selectedPreset().summary}.`}`;
  };

  const numberOf = (field) => (field.value === "" || field.disabled ? {} : { [field.name]: Number(field.value) });
  const textOf = (field) => (field.value === "" || field.disabled ? {} : { [field.name]: field.value });

  const commonFields = () => {
    const lastMessage = { role: "user", content: prompt.value };
    const systemMessages = system.value.trim() ? [{ role: "system", content: system.value }] : [];
    return {
      ...(kind.value === "chat" ? { messages: [...systemMessages, ...earlierMessages, lastMessage] } : { prompt: prompt.value }),
      ...textOf(target),
      ...numberOf(max_new_tokens),
      ...numberOf(seed),
      unit: unit.value,
    };
  };

  // One request, or two for a comparison; the second method has its default settings.
  const buildRequests = () => {
    const settings = { ...textOf(preset), ...textOf(removal), ...textOf(replacer), ...numberOf(probes) };
    const first = { ...commonFields(), method: method.value, ...settings };
    const other = options.methods.find(({ id }) => id === compare.value);
    if (!other) return [first];
    return [first, { ...commonFields(), method: other.id, ...(other.presets[0].replaces ? { replacer: replacer.value } : {}) }];
  };

  const fill = (explanation, comparedMethod = "") => {
    const messages = messagesOf(explanation);
    kind.value = messages.length ? "chat" : "text";
    system.value = messages[0]?.role === "system" ? messages.shift().content : "";
    prompt.value = messages.pop()?.content ?? explanation.prompt;
    earlierMessages = messages;
    choose(method, explanation.method.id);
    updateFields();
    choose(preset, explanation.method.preset);
    updateFields();
    removal.value = ""; // the default
    if (explanation.method.removal !== selectedPreset().removal) choose(removal, explanation.method.removal);
    choose(replacer, replacerOf(explanation) ?? "auto");
    choose(unit, explanation.unit ?? "token");
    choose(compare, comparedMethod);
    seed.value = explanation.seed;
    updateFields();
  };

  const fillExample = () => {
    form.reset();
    earlierMessages = [];
    prompt.value = EXAMPLE;
    updateFields();
  };

  setChoices(method, options.methods);
  setChoices(compare, [{ id: "", label: "nothing" }, ...options.methods]);
  setChoices(replacer, options.replacers);
  setChoices(unit, options.units.map((id) => ({ id })));
  max_new_tokens.max = options.limits.new_tokens;
  probes.max = options.limits.probes;
  for (const radio of kind) if (radio.value === "chat") radio.disabled = !options.chat;
  form.addEventListener("change", updateFields);
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  if (!prompt.value) fillExample();
  else updateFields();
  return { buildRequests, fill, fillExample };
}

/* The request that reproduces an explanation. */
export function requestOf(explanation) {
  const { method, seed, unit, completion, levels } = explanation;
  const messages = messagesOf(explanation);
  const replacer = replacerOf(explanation);
  return {
    ...(messages.length ? { messages } : { prompt: explanation.prompt }),
    target: completion,
    method: method.id,
    ...(method.preset ? { preset: method.preset } : {}),
    ...(method.removal ? { removal: method.removal } : {}),
    ...(replacer ? { replacer } : {}),
    ...(unit && unit !== "span" && !levels?.length ? { unit } : {}),
    seed,
  };
}

/* The replacer of the probes; where units are deleted or masked, a replacer made the counterfactual texts only. */
const replacerOf = ({ method, replacer }) => (["delete", "mask"].includes(method.removal) ? undefined : replacer?.id);

/* Slice by characters: offsets count code points, while JavaScript strings count UTF-16 units. */
export const sliceText = (text, start, end) => [...text].slice(start, end).join("");

const messagesOf = ({ prompt, messages = [] }) =>
  messages.map(({ role, start, end }) => ({ role, content: sliceText(prompt, start, end) }));
