/* The question: reads the form as the service wants it, and fills it from an explanation. */

export const EXAMPLE =
  "My aunt moved to Japan to teach music. (Her old piano is still standing in our garage). She rents a small flat in the capital,";

export function questionForm(form, options) {
  const { kind, system, prompt, method, preset, unit, compare, target, max_new_tokens, replacer, seed, probes } = form.elements;
  const systemField = form.querySelector("#system-field");
  const note = form.querySelector("#method-note");
  const reminder = form.querySelector("#earlier");
  let earlier = []; // messages of a chat that was opened, between the system's and the last
  const chosen = () => options.methods.find(({ id }) => id === method.value);
  const settings = () => chosen().presets.find(({ id }) => id === preset.value);

  const choices = (select, entries) => {
    const before = select.value;
    select.replaceChildren(...entries.map(({ id, label = id }) => new Option(label, id)));
    pick(select, before);
  };
  const pick = (select, value) => {
    if ([...select.options].some((option) => option.value === value)) select.value = value;
  };

  // What a choice opens, closes and says.
  const follow = () => {
    const { presets, replaces, probes: countable, summary } = chosen();
    choices(preset, presets);
    preset.disabled = presets.length < 2;
    replacer.disabled = !replaces;
    probes.disabled = !countable || preset.value !== presets[0].id; // counted by the first preset only
    systemField.hidden = kind.value !== "chat";
    reminder.hidden = kind.value !== "chat" || !earlier.length;
    reminder.textContent = `The ${earlier.length} messages of the chat before this one go along.`;
    note.textContent = `${method.value} ${summary}. ${presets.length < 2 ? "" : `${preset.value}: ${settings().summary}.`}`;
  };

  const numberOf = (field) => (field.value === "" || field.disabled ? {} : { [field.name]: Number(field.value) });
  const textOf = (field) => (field.value === "" || field.disabled ? {} : { [field.name]: field.value });

  const asked = () => {
    const user = { role: "user", content: prompt.value };
    const before = system.value.trim() ? [{ role: "system", content: system.value }] : [];
    return {
      ...(kind.value === "chat" ? { messages: [...before, ...earlier, user] } : { prompt: prompt.value }),
      ...textOf(target),
      ...numberOf(max_new_tokens),
      ...numberOf(seed),
      unit: unit.value,
    };
  };

  // One job, or two for a comparison; the second method comes with its own settings.
  const requests = () => {
    const first = { ...asked(), method: method.value, ...textOf(preset), ...textOf(replacer), ...numberOf(probes) };
    const other = options.methods.find(({ id }) => id === compare.value);
    if (!other) return [first];
    return [first, { ...asked(), method: other.id, ...(other.replaces ? { replacer: replacer.value } : {}) }];
  };

  const fill = (explanation, compared = "") => {
    const messages = messagesOf(explanation);
    kind.value = messages.length ? "chat" : "text";
    system.value = messages[0]?.role === "system" ? messages.shift().content : "";
    prompt.value = messages.pop()?.content ?? explanation.prompt;
    earlier = messages;
    pick(method, explanation.method.id);
    follow();
    pick(preset, explanation.method.preset);
    pick(replacer, explanation.replacer?.id);
    pick(unit, explanation.unit ?? "token");
    pick(compare, compared);
    seed.value = explanation.seed;
    follow();
  };

  const example = () => {
    form.reset();
    earlier = [];
    prompt.value = EXAMPLE;
    follow();
  };

  choices(method, options.methods);
  choices(compare, [{ id: "", label: "nothing" }, ...options.methods]);
  choices(replacer, options.replacers);
  choices(unit, options.units.map((id) => ({ id })));
  max_new_tokens.max = options.limits.new_tokens;
  probes.max = options.limits.probes;
  for (const radio of kind) if (radio.value === "chat") radio.disabled = !options.chat;
  form.addEventListener("change", follow);
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  if (!prompt.value) example();
  else follow();
  return { requests, fill, example };
}

/* The request that would lead to an explanation again, whoever made it. */
export function requestOf(explanation) {
  const { method, replacer, seed, unit, completion, levels } = explanation;
  const messages = messagesOf(explanation);
  return {
    ...(messages.length ? { messages } : { prompt: explanation.prompt }),
    target: completion,
    method: method.id,
    ...(method.preset ? { preset: method.preset } : {}),
    ...(replacer ? { replacer: replacer.id } : {}),
    ...(unit && unit !== "span" && !levels?.length ? { unit } : {}),
    seed,
  };
}

/* Offsets count characters, not the halves that JavaScript has for some. */
export const cut = (text, start, end) => [...text].slice(start, end).join("");

const messagesOf = ({ prompt, messages = [] }) =>
  messages.map(({ role, start, end }) => ({ role, content: cut(prompt, start, end) }));
