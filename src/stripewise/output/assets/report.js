(function () {
  "use strict";
  var document_ = JSON.parse(document.getElementById("figures").textContent);
  var dark = window.matchMedia("(prefers-color-scheme: dark)");

  function draw(light) {
    var look = document_.looks[dark.matches && !light ? "dark" : "light"];
    return Promise.all(
      Array.prototype.map.call(document.querySelectorAll("[data-figure]"), function (place) {
        return window.stripewise.drawn(place, document_.figures[place.dataset.figure], look);
      })
    );
  }

  draw(false);
  document.addEventListener(
    "toggle",
    function (event) {
      if (event.target.open && event.target.querySelector("[data-figure]")) {
        draw(false);
      }
    },
    true
  );
  dark.addEventListener("change", function () {
    draw(false);
  });

  // Paper is white and cannot be opened: print in the light look, with everything unfolded.
  var folded = [];
  window.addEventListener("beforeprint", function () {
    folded = Array.prototype.filter.call(document.querySelectorAll("details"), function (one) {
      return !one.open;
    });
    folded.forEach(function (one) {
      one.open = true;
    });
    draw(true);
  });
  window.addEventListener("afterprint", function () {
    folded.forEach(function (one) {
      one.open = false;
    });
    draw(false);
  });

  Array.prototype.forEach.call(document.querySelectorAll("button.copy"), function (button) {
    button.addEventListener("click", function () {
      var text = button.parentNode.querySelector("code").textContent;
      var say = function (word) {
        button.textContent = word;
        window.setTimeout(function () {
          button.textContent = "Copy";
        }, 1500);
      };
      window.stripewise.copied(text).then(
        function () {
          say("Copied");
        },
        function () {
          say("Select it by hand");
        }
      );
    });
  });
})();
