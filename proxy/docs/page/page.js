// Samples have a copy button, and the forms of the operations send their request. A key that a reader enters is held in a variable only:
// while there is one, links load the next page into this one, so that it survives.
"use strict";

const held = { key: "", property: "" };

function addCopyButtons() {
  if (!navigator.clipboard) return;
  for (const sample of document.querySelectorAll("main pre")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(sample.querySelector("code").textContent);
      button.textContent = "Copied";
    });
    const frame = document.createElement("div");
    frame.className = "sample";
    sample.replaceWith(frame);
    frame.append(sample, button);
  }
}

const headers = (key) => ({ headers: { Authorization: "Bearer " + key.trim() } });

// offerProperties lists the properties of the key, once a reader is about to choose one.
async function offerProperties(form, key) {
  const list = form.querySelector("datalist");
  if (!key.value || list.dataset.key === key.value) return;
  list.dataset.key = key.value;
  const answer = await (await fetch(form.dataset.root + "/v1/properties?limit=200", headers(key.value))).json();
  list.replaceChildren(...(answer.data?.rows ?? []).map((row) => new Option(row.display_name, row.gsc_property)));
}

// pathOf is the path and query of the request that a form describes. Defaults are left out.
function pathOf(form) {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  for (const field of form.querySelectorAll("[name]")) {
    const value = field.value.trim();
    if (field.name === "id") path = path.replace("{id}", encodeURIComponent(value));
    else if (value !== "" && value !== field.dataset.default) query.set(field.name, value);
  }
  return query.size ? `${path}?${query}` : path;
}

// showJSON marks keys, strings and other values for the style sheet, as the server does.
function showJSON(place, text) {
  place.replaceChildren();
  let at = 0;
  for (const found of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|-?\d[\d.eE+-]*|true|false|null/g)) {
    const span = document.createElement("span");
    span.className = found[2] ? "k" : found[1] ? "s" : "n";
    span.textContent = found[1] ?? found[0];
    place.append(text.slice(at, found.index), span);
    at = found.index + span.textContent.length;
  }
  place.append(text.slice(at));
}

async function send(form, key) {
  const outcome = document.getElementById("outcome");
  const path = pathOf(form);
  document.getElementById("sent").firstElementChild.textContent = "GET " + decodeURIComponent(path.replaceAll("+", " "));
  outcome.textContent = "Waiting for the answer…";
  outcome.className = "outcome";
  try {
    const began = performance.now();
    const response = await fetch(form.dataset.root + path, headers(key.value));
    const answer = await response.json();
    const facts = [`Status ${response.status}`, `${Math.round(performance.now() - began)} ms`, `cache ${response.headers.get("X-Cache")}`];
    if (response.ok) { // on a 401 or a 429, the headers are not about the day
      facts.push(`${response.headers.get("X-RateLimit-Remaining")} of ${response.headers.get("X-RateLimit-Limit")} requests left today`);
    }
    outcome.textContent = facts.join(" · ");
    outcome.className = response.ok ? "outcome done" : "outcome done wrong";
    showJSON(document.getElementById("shown"), JSON.stringify(answer, null, 2));
    document.querySelector("details.command").hidden = true; // it is about the sample
    document.getElementById("answer").scrollIntoView({ block: "start" });
  } catch (error) {
    outcome.textContent = `No answer: ${error.message}. Check that the server runs, and that this computer reaches it.`;
    outcome.className = "outcome done wrong";
  }
}

function prepareForm() {
  const form = document.querySelector("form.try");
  if (!form) return;
  const key = form.querySelector("#key");
  const property = form.querySelector("[name=id]");
  form.classList.add("live");
  key.value = held.key || key.value;
  key.addEventListener("change", () => { held.key = key.value; });
  if (property) {
    property.value = held.property || property.value;
    property.addEventListener("change", () => { held.property = property.value; });
    property.addEventListener("focus", () => { offerProperties(form, key).catch(() => {}); });
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, key);
  });
}

function prepare() {
  prepareForm();
  addCopyButtons();
}

// load replaces this page's content with that of another one.
async function load(address) {
  const response = await fetch(address);
  if (!response.headers.get("Content-Type").startsWith("text/html")) throw new Error("not a page");
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  document.title = page.title;
  document.querySelector(".columns").replaceWith(page.querySelector(".columns"));
  prepare();
  const target = document.getElementById(address.hash.slice(1));
  if (target) target.scrollIntoView();
  else scrollTo(0, 0);
  document.getElementById("main").focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!held.key || !link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const address = new URL(link.href);
  const home = new URL(document.querySelector(".brand").href);
  const here = address.pathname === location.pathname && address.hash;
  if (address.origin !== location.origin || !address.pathname.startsWith(home.pathname) || here) return;
  event.preventDefault();
  load(address).then(() => history.pushState(null, "", address), () => location.assign(address));
});
addEventListener("popstate", () => {
  if (held.key) load(new URL(location.href)).catch(() => location.reload());
});

prepare();
