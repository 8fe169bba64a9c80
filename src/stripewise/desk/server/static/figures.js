// Figures: fetched as JSON beside the page, drawn in the page's look, drawn again when the look or the data change.
(function () {
  "use strict";
  var store = { looks: {}, figures: {} };
  var raw = true;

  function nameOf(place) {
    return raw || !place.dataset.other ? place.dataset.figure : place.dataset.other;
  }

  function told(place, text) {
    place.classList.remove("loading");
    if (place.classList.contains("drawn")) {
      return;
    }
    place.classList.add("none");
    place.textContent = text;
  }

  function drawOne(place, complete) {
    var figure = store.figures[nameOf(place)];
    if (!figure) {
      if (complete) {
        told(place, place.dataset.none || "Nothing to draw yet.");
      }
      return Promise.resolve();
    }
    if (place.closest("details:not([open])")) {
      return Promise.resolve();
    }
    if (!place.classList.contains("drawn")) {
      place.textContent = "";
      place.classList.remove("loading", "none");
      place.classList.add("drawn");
    }
    var look = store.looks[window.stripewiseDark() ? "dark" : "light"];
    return window.stripewise.drawn(place, figure, look).then(function () {
      place.dispatchEvent(new CustomEvent("stripewise-drawn", { bubbles: true }));
    });
  }

  function draw(complete) {
    document.querySelectorAll("[data-figure]").forEach(function (place) {
      drawOne(place, complete);
    });
  }

  function places() {
    return document.querySelectorAll("[data-figures]");
  }

  var busy = false;
  var late = false;

  // Figures of a part that is folded are fetched once it is opened.
  function load() {
    if (busy) {
      late = true;
      return;
    }
    busy = true;
    var sources = Array.prototype.filter
      .call(places(), function (one) {
        return one.tagName !== "DETAILS" || one.open;
      })
      .map(function (one) {
        return one.dataset.figures;
      })
      .join(" ")
      .split(" ");
    var left = sources.length;
    sources.forEach(function (address) {
      fetch(address, { credentials: "same-origin", signal: window.stripewise.leaving() })
        .then(function (answer) {
          if (!answer.ok) {
            throw new Error(String(answer.status));
          }
          return answer.json();
        })
        .then(function (document_) {
          store.looks = document_.looks;
          Object.assign(store.figures, document_.figures);
          draw(left === 1);
        })
        .catch(function (error) {
          if (window.stripewise.leaving().aborted) {
            return;
          }
          console.error(error);
          document.querySelectorAll("[data-figure].loading").forEach(function (place) {
            told(place, "The figure could not be loaded. Reload the page to try again.");
          });
        })
        .finally(function () {
          left -= 1;
          if (left === 0) {
            busy = false;
            document.body.dataset.drawn = "yes";
            if (late) {
              late = false;
              load();
            }
          }
        });
    });
  }

  if (places().length) {
    load();
  }
  document.addEventListener("stripewise-look", function () {
    draw(false);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
    draw(false);
  });
  document.addEventListener("stripewise-fresh", load);
  document.addEventListener(
    "toggle",
    function (event) {
      if (event.target.open && event.target.dataset.figures) {
        load();
      } else if (event.target.open) {
        event.target.querySelectorAll("[data-figure]").forEach(function (place) {
          drawOne(place, true);
        });
      }
    },
    true
  );
  document.addEventListener("change", function (event) {
    if (event.target.name === "repeats") {
      raw = event.target.value === "runs";
      draw(true);
    }
  });
})();
