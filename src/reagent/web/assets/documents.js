/* Documents from files: .txt and .md are one document each, and each line of .jsonl is one. */

const TEXT_FIELDS = ["page_content", "text", "content"];
const ID_FIELDS = ["id", "id_", "node_id", "doc_id"];
const TITLE_FIELDS = ["id", "title", "source", "file_name", "file_path", "name", "url"];

export const isDocumentFile = ({ name }) => /\.(txt|md|jsonl)$/i.test(name);

/* A list of {name, content}. */
export async function readDocuments(file) {
  const text = (await decode(file)).trimEnd();
  if (!text.trim()) throw new Error(`${file.name} is empty`);
  if (!/\.jsonl$/i.test(file.name)) return [{ name: file.name, content: text }];
  const lines = text.split(/\r?\n/).map((line, i) => [line, `line ${i + 1} of ${file.name}`]);
  return lines.filter(([line]) => line.trim()).map(([line, where]) => readRecord(line, where));
}

async function decode(file) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is not a text file in UTF-8`);
  }
}

function readRecord(line, where) {
  let record = null;
  try {
    record = JSON.parse(line);
  } catch {
    throw new Error(`${where} is not JSON: give one object for each line, as {"text": "…"}`);
  }
  const content = typeof record === "string" ? record : find(record, TEXT_FIELDS);
  if (typeof content !== "string" || !content.trim()) throw new Error(`${where} has no text: give an object, as {"text": "…"}`);
  const name = find(record?.metadata ?? record?.meta, TITLE_FIELDS) ?? find(record, ID_FIELDS);
  return { name: name === undefined ? "" : String(name), content };
}

const find = (record, names) => names.map((name) => record?.[name]).find((value) => value !== undefined && value !== null && value !== "");
