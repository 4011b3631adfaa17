"use strict";

// All text enters the page as textContent: what a user types is never markup.

const LEVELS = [0.1, 0.25, 0.5, 0.75];
const NUM_SUSPICIOUS = 5;
const EXAMPLE_SCORE = "This method is called when the garden is created.";
const EXAMPLE_FILL = "This method is called when the [MASK] is created.";

const element = (id) => document.getElementById(id);
const percent = (value) => `${(100 * value).toFixed(1)} %`;
const countCharacters = (text) => Array.from(text).length;

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
    element("score").hidden = true;
    element("fill").hidden = true;
  }
}

function buildBar(name, value) {
  const track = create("span", "track");
  const filled = document.createElement("span");
  filled.style.width = `${100 * value}%`;
  track.append(filled);
  const label = create("bdi", "name", name);
  label.title = name;
  return [label, track, create("span", "number", percent(value))];
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
    ...words.slice(0, NUM_SUSPICIOUS).map((word) => {
      const item = document.createElement("li");
      item.append(...buildBar(word.text, word.probability));
      return item;
    }),
  );
  const truncated = element("truncated");
  truncated.hidden = !answer.num_truncated;
  truncated.textContent =
    `The end of the text (${answer.num_truncated} tokens) is longer than ` +
    "the model reads and was not scored.";
  element("score").hidden = false;
  element("fill").hidden = true;
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
  element("fill").hidden = false;
  element("score").hidden = true;
}

async function analyse() {
  question += 1;
  const mine = question;
  const text = element("text").value;
  const isFill = model.can_fill && text.includes(model.mask);
  updateCount();
  element("submit").disabled = true;
  document.body.setAttribute("aria-busy", "true");
  try {
    const path = isFill || !model.can_score ? "/api/fill" : "/api/score";
    const answer = await ask(path, { text });
    if (mine !== question) return;
    showError("");
    if (path === "/api/fill") showFill(text, answer);
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
  const count = countCharacters(element("text").value);
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

function prepare() {
  const { can_score: canScore, can_fill: canFill } = model;
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
  element("form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (model) analyse();
  });
  element("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (model) analyse();
    }
  });
  element("text").addEventListener("input", () => model && updateCount());
  element("mask").addEventListener("click", insertMask);
  element("example-score").addEventListener("click", () =>
    useExample(EXAMPLE_SCORE),
  );
  element("example-fill").addEventListener("click", () =>
    useExample(EXAMPLE_FILL),
  );
  try {
    model = await ask("/api/model");
    prepare();
  } catch (error) {
    showError(error.message);
  }
}

start();
