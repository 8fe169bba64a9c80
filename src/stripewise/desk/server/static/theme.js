// The look, before anything is drawn: as the system has it, or as chosen here.
(function () {
  "use strict";
  var looks = ["auto", "light", "dark"];
  var words = { auto: "as the system", light: "light", dark: "dark" };
  var signs = { auto: "◐", light: "☀", dark: "☾" };
  var root = document.documentElement;

  function stored() {
    try {
      var look = window.localStorage.getItem("stripewise-look");
      return looks.indexOf(look) < 0 ? "auto" : look;
    } catch (error) {
      return "auto";
    }
  }

  function wear(look) {
    if (look === "auto") {
      root.removeAttribute("data-theme");
    } else {
      root.setAttribute("data-theme", look);
    }
    root.style.colorScheme = look === "auto" ? "light dark" : look;
  }

  window.stripewiseDark = function () {
    var look = root.getAttribute("data-theme");
    return look ? look === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  };

  wear(stored());
  document.addEventListener("DOMContentLoaded", function () {
    var button = document.querySelector("[data-theme-switch]");
    if (!button) {
      return;
    }
    function label(look) {
      button.textContent = signs[look];
      button.setAttribute("aria-label", "Look: " + words[look]);
      button.title = "Look: " + words[look];
    }
    label(stored());
    button.addEventListener("click", function () {
      var next = looks[(looks.indexOf(stored()) + 1) % looks.length];
      try {
        window.localStorage.setItem("stripewise-look", next);
      } catch (error) {
        // Without storage the choice lasts as long as the page.
      }
      wear(next);
      label(next);
      document.dispatchEvent(new CustomEvent("stripewise-look"));
    });
  });
})();
