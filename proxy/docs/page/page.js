// Each sample has a copy button.
"use strict";

for (const sample of document.querySelectorAll(".prose pre")) {
  if (!navigator.clipboard || sample.closest(".errors")) continue;
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
