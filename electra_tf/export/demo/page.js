"use strict";

// All text enters the page as textContent: what a user types is never markup.

const LEVELS = [0.1, 0.25, 0.5, 0.75];
const NUM_SUSPICIOUS = 5;
const EXAMPLE_SCORE =
  "He was born in New York and studied law at the table of Chicago.";
const EXAMPLE_FILL = "She won the gold [MASK] at the Olympic Games.";
// How the answers of fine-tuned models are shown, by the `view` of their kind.
const VIEWS = {
  labels: showLabels,
  comparison: showComparison,
  number: showNumber,
  tags: showTags,
  answer: showAnswer,
  fields: showFields,
};
// What the model reads: a label, and an example.
const INPUTS = {
  text: ["A text", "Mr. Smith said the U.S. trade deficit is expected to narrow."],
  text_pair: ["A second text", "The deficit will shrink, Mr. Smith said."],
  question: ["A question", "Where did the cat sleep?"],
  context: [
    "A text with the answer",
    "The dog sat under the table all day. The cat slept on the warm stove " +
      "until Mr. Smith came home.",
  ],
};

const element = (id) => document.getElementById(id);
const percent = (value) => `${(100 * value).toFixed(1)} %`;
const countCharacters = (text) => Array.from(text).length;
const slice = (text, start, end) => Array.from(text).slice(start, end).join("");

let model = null;
// Answers to older questions are dropped.
let question = 0;

function create(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function levelOf(probability) {
  return LEVELS.filter((bound) => probability >= bound).length;
}

async function ask(path, body) {
  const options = body && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  let response;
  try {
    response = await fetch(path, options || {});
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new Error(answer.error || `The server answered ${response.status}.`);
  }
  return answer;
}

function showError(message) {
  element("error").textContent = message;
  element("error").hidden = !message;
  if (message) {
    showResult("");
  }
}

function showResult(name, numTruncated) {
  for (const id of ["score", "fill", "predict"]) {
    element(id).hidden = id !== name;
  }
  element("truncated").hidden = !numTruncated;
  element("truncated").textContent =
    `The end of the text (${numTruncated} tokens) is longer than the model ` +
    "reads and was not seen.";
}

function buildTrack(share) {
  const track = create("span", "track");
  const filled = document.createElement("span");
  filled.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  track.append(filled);
  return track;
}

function buildBar(name, value) {
  const label = create("bdi", "name", name);
  label.title = name;
  return [label, buildTrack(value), create("span", "number", percent(value))];
}

function showScore(answer) {
  const words = answer.parts.filter((part) => part.probability !== null);
  element("words").replaceChildren(
    ...answer.parts.map((part) => {
      if (part.probability === null) {
        return document.createTextNode(part.text);
      }
      const level = levelOf(part.probability);
      const word = create("span", `word level-${level}`, part.text);
      word.title = `replaced: ${percent(part.probability)}`;
      word.dataset.probability = part.probability;
      return word;
    }),
  );
  words.sort((first, second) => second.probability - first.probability);
  element("suspicious").replaceChildren(
    ...words
      .slice(0, NUM_SUSPICIOUS)
      .map((word) => buildItem(word.text, word.probability)),
  );
  showResult("score", answer.num_truncated);
}

function buildItem(name, value) {
  const item = document.createElement("li");
  item.append(...buildBar(name, value));
  return item;
}

function showLabels(answer) {
  const labels = answer.labels ?? [answer.label];
  element("verdict").textContent = labels.join(", ") || "No label";
  element("labels").replaceChildren(
    ...Object.entries(answer.probabilities)
      .sort((first, second) => second[1] - first[1])
      .map(([label, probability]) => buildItem(label, probability)),
  );
}

function showComparison(answer) {
  element("verdict").textContent = answer.score.toFixed(2);
  element("details").textContent =
    "The higher, the better the second text goes with the first; compare it " +
    "with other second texts.";
}

function showNumber(answer) {
  const [low, high] = model.range;
  const place = (answer.value - low) / (high - low);
  element("verdict").textContent = answer.value.toFixed(2);
  const scale = create("li", "scale");
  scale.append(create("span", "number", `${low}`), buildTrack(place));
  scale.append(create("span", "", `${high}`));
  element("labels").replaceChildren(scale);
  const range = `It learned from numbers between ${low} and ${high}.`;
  const isOutside = place < 0 || place > 1;
  element("details").textContent = isOutside ? `Out of range. ${range}` : range;
}

function mark(text, kind, kinds) {
  const marked = create("mark", "tagged", text);
  // Turns of the golden angle: neighbours in the legend differ most.
  marked.style.setProperty("--hue", `${(kinds.indexOf(kind) * 137.5) % 360}`);
  marked.append(create("span", "tag", kind));
  return marked;
}

function showTags(answer, text) {
  const { words, spans } = answer;
  // Tags that mark no spans are of single words.
  const isSpans = spans.length || words.every((word) => word[3] === "O");
  const tagged = isSpans ? spans : words;
  const counts = new Map();
  for (const [, , , kind] of tagged) counts.set(kind, (counts.get(kind) || 0) + 1);
  const kinds = [...counts.keys()].sort();
  const shown = [];
  let position = 0;
  for (const [, start, end, kind] of tagged) {
    shown.push(document.createTextNode(slice(text, position, start)));
    const marked = mark(slice(text, start, end), kind, kinds);
    marked.title = words
      .filter((word) => word[1] >= start && word[2] <= end)
      .map((word) => `${word[0]}: ${word[3]}, ${percent(word[4])}`)
      .join("\n");
    shown.push(marked);
    position = end;
  }
  shown.push(document.createTextNode(slice(text, position)));
  element("marked").replaceChildren(...shown);
  element("kinds").replaceChildren(
    ...kinds.map((kind) => {
      const item = document.createElement("li");
      item.append(mark(`${counts.get(kind)} ×`, kind, kinds));
      return item;
    }),
  );
  if (!tagged.length) element("details").textContent = "No spans were found.";
}

function showAnswer(answer, _, context) {
  const { text, start, end, is_answerable: isAnswerable } = answer;
  element("verdict").textContent = isAnswerable ? text : "No answer";
  const kind = isAnswerable ? "answer" : "answer unlikely";
  element("marked").replaceChildren(
    document.createTextNode(slice(context, 0, start)),
    create("mark", kind, slice(context, start, end)),
    document.createTextNode(slice(context, end)),
  );
  const unlikely = "The model finds no answer in the text; the mark is its " +
    "best guess. ";
  element("details").textContent =
    `${isAnswerable || !text ? "" : unlikely}` +
    `Score ${answer.score.toFixed(2)}, odds that there is no answer ` +
    `${answer.null_odds.toFixed(2)}.`;
}

function showFields(answer) {
  element("details").textContent = JSON.stringify(answer);
}

function showPrediction(answer, texts) {
  element("predict-title").textContent = model.page.heading;
  for (const id of ["verdict", "marked", "kinds", "labels", "details"]) {
    element(id).replaceChildren();
  }
  VIEWS[model.page.view](answer, ...texts);
  showResult("predict", answer.num_truncated);
}

// "un", "##able": a piece that continues a word has no blank before it.
function putIn(text, place, token) {
  const parts = text.split(model.mask);
  let before = parts.slice(0, place + 1).join(model.mask);
  const after = parts.slice(place + 1).join(model.mask);
  if (token.startsWith("##")) before = before.trimEnd();
  return before + token.replace(/^##/, "") + after;
}

function buildMask(text, place, fillings) {
  const box = document.createElement("div");
  box.append(create("h3", "", `${model.mask} number ${place + 1}`));
  const list = create("ol", "bars");
  for (const filling of fillings) {
    const button = create("button", "filling");
    button.type = "button";
    button.append(...buildBar(filling.token, filling.probability));
    button.addEventListener("click", () => {
      element("text").value = putIn(text, place, filling.token);
      analyse();
    });
    const item = document.createElement("li");
    item.append(button);
    list.append(item);
  }
  box.append(list);
  return box;
}

function showFill(text, answer) {
  const parts = text.split(model.mask);
  const shown = [document.createTextNode(parts[0])];
  parts.slice(1).forEach((part, place) => {
    shown.push(create("span", "gap", `${place + 1}`));
    shown.push(document.createTextNode(part));
  });
  element("gaps").replaceChildren(...shown);
  element("masks").replaceChildren(
    ...answer.masks.map((row, place) => buildMask(text, place, row)),
  );
  showResult("fill");
}

async function analyse() {
  question += 1;
  const mine = question;
  const fields = [element("text"), element("second")];
  const texts = fields.slice(0, model.inputs.length).map(({ value }) => value);
  const isFill = model.can_fill && texts[0].includes(model.mask);
  updateCount();
  element("submit").disabled = true;
  document.body.setAttribute("aria-busy", "true");
  try {
    const path = model.kind
      ? "/api/predict"
      : isFill || !model.can_score ? "/api/fill" : "/api/score";
    const body = model.inputs.map((name, place) => [name, texts[place]]);
    const answer = await ask(path, Object.fromEntries(body));
    if (mine !== question) return;
    showError("");
    if (model.kind) showPrediction(answer, texts);
    else if (path === "/api/fill") showFill(texts[0], answer);
    else showScore(answer);
  } catch (error) {
    if (mine === question) showError(error.message);
  } finally {
    if (mine === question) {
      element("submit").disabled = false;
      document.body.removeAttribute("aria-busy");
    }
  }
}

function updateCount() {
  const values = [element("text").value, element("second").value];
  const count = Math.max(...values.map(countCharacters));
  element("count").textContent = `${count} of ${model.max_characters}`;
}

function insertMask() {
  const box = element("text");
  box.setRangeText(model.mask, box.selectionStart, box.selectionEnd, "end");
  box.focus();
  updateCount();
}

function useExample(text) {
  element("text").value = text;
  analyse();
}

function preparePredictions() {
  element("title").textContent = model.page.title;
  element("submit").textContent = "Ask";
  const [first, second] = model.inputs.map((name) => INPUTS[name]);
  [element("text-label").textContent] = first;
  element("second-field").hidden = !second;
  if (second) [element("second-label").textContent] = second;
  if (model.page.view === "answer") element("second").rows = 6;
  element("example-predict").hidden = false;
  element("example-predict").addEventListener("click", () => {
    if (second) element("second").value = second[1];
    useExample(first[1]);
  });
}

function prepare() {
  const { can_score: canScore, can_fill: canFill } = model;
  if (model.kind) preparePredictions();
  element("description").textContent = model.description;
  element("mask").hidden = !canFill;
  element("example-fill").hidden = !canFill;
  element("example-score").hidden = !canScore;
  const hints = [];
  if (canScore) hints.push("Words that look replaced are coloured.");
  if (canFill) hints.push(`${model.mask} is filled in.`);
  element("hint").textContent = hints.join(" ");
  element("submit").disabled = false;
  updateCount();
}

async function start() {
  const on = (id, event, act) => element(id).addEventListener(event, act);
  on("form", "submit", (event) => {
    event.preventDefault();
    if (model) analyse();
  });
  on("form", "keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (model) analyse();
    }
  });
  on("form", "input", () => model && updateCount());
  on("mask", "click", insertMask);
  on("example-score", "click", () => useExample(EXAMPLE_SCORE));
  on("example-fill", "click", () => useExample(EXAMPLE_FILL));
  try {
    model = await ask("/api/model");
    prepare();
  } catch (error) {
    showError(error.message);
  }
}

start();
