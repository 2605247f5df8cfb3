// The slider of the cost ratio: all numbers and sentences were computed in Python, one for each place of the slider.
for (const slider of document.querySelectorAll("input.ratio")) {
  const part = slider.closest("section"), rows = JSON.parse(part.querySelector("script.ratios").textContent);
  const show = () => {
    const row = rows[Number(slider.value)];
    part.querySelector(".ratio-value").textContent = row.ratio;
    part.querySelector(".ratio-text").textContent = row.text;
    slider.setAttribute("aria-valuetext", row.ratio);
  };
  slider.addEventListener("input", show);
  show();
}
