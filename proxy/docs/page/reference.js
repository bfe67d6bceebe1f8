// Renders the endpoints from the served OpenAPI document, and lets readers try them with their own key. The key is held only in
// variables of this script and of Swagger UI.
"use strict";

const form = document.getElementById("try");
const keyField = document.getElementById("key");
const propertyField = document.getElementById("property");
const state = document.getElementById("state");
const place = document.getElementById("reference");

// Swagger UI's dark theme is a class.
const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", colour);
colour();

const pointedTo = () => document.getElementById(location.hash.slice(1));

async function getJSON(path, key) {
  const response = await fetch(path, key ? { headers: { Authorization: "Bearer " + key } } : {});
  const body = await response.json();
  if (!response.ok) throw new Error(body.error ? body.error.code + ": " + body.error.message : "status " + response.status);
  return body;
}

// prepare returns a copy of the document with this host as its server and a property filled in.
function prepare(original, property) {
  const copy = structuredClone(original);
  copy.servers = [{ url: location.origin + form.dataset.root }];
  for (const item of Object.values(copy.paths)) {
    for (const parameter of item.get.parameters) {
      if (parameter.name === "id") parameter.example = property;
      if (parameter.content) {
        // A text field, which may stay empty: the form for objects would send its example unasked.
        delete parameter.content;
        parameter.schema = { type: "string" };
        parameter.description += ' Such as [{"dimension":"query","operator":"contains","value":"shop"}]';
      }
    }
  }
  return copy;
}

// draw renders the endpoints again, and resolves when they are shown.
function draw(original, key, property) {
  return new Promise((resolve) => {
    const ui = SwaggerUIBundle({
      spec: prepare(original, property),
      domNode: place,
      presets: [SwaggerUIBundle.presets.apis],
      deepLinking: !pointedTo(), // it would take any fragment for its own
      docExpansion: "list",
      filter: true,
      tryItOutEnabled: true,
      displayRequestDuration: true,
      defaultModelsExpandDepth: -1,
      defaultModelExpandDepth: 4,
      supportedSubmitMethods: ["get"],
      validatorUrl: null,
      onComplete: () => {
        if (key) ui.preauthorizeApiKey("key", key);
        place.removeAttribute("aria-busy");
        resolve();
      },
    });
  });
}

// choose offers the properties that the key reaches, and returns the first choice.
async function choose(key) {
  const rows = (await getJSON(form.dataset.root + "/v1/properties?limit=200", key)).data.rows;
  const list = document.getElementById("properties");
  list.replaceChildren(...rows.map((row) => {
    const option = document.createElement("option");
    option.value = row.gsc_property;
    option.label = row.display_name;
    return option;
  }));
  const first = rows.find((row) => row.starred) || rows[0];
  return first ? first.gsc_property : "";
}

async function use(original) {
  const key = keyField.value.trim();
  try {
    form.classList.remove("ready");
    state.className = "";
    state.textContent = "Loading the properties of the key…";
    const chosen = await choose(key);
    propertyField.value = propertyField.value.trim() || chosen;
    state.textContent = "The key and the property are filled in below: open an endpoint and press Execute.";
  } catch (error) {
    state.className = "wrong";
    state.textContent = "The properties of the key could not be loaded. " + error.message;
  }
  await draw(original, key, propertyField.value.trim() || propertyField.placeholder);
  form.classList.add("ready");
}

async function start() {
  const original = await getJSON(form.dataset.document);
  await draw(original, "", propertyField.placeholder);
  form.hidden = false;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    use(original);
  });
  // Rendering has moved the element that the address points to.
  pointedTo()?.scrollIntoView();
}

start().catch((error) => {
  place.removeAttribute("aria-busy");
  place.textContent = "The endpoints could not be rendered: " + error.message;
});
