// The form of a new experiment: only the options of the chosen sampler, runner and rules are shown; the dry run comes
// without leaving the page.
(function () {
  "use strict";
  var form = document.getElementById("definition");
  if (!form) {
    return;
  }

  function choose() {
    form.querySelectorAll("[data-when]").forEach(function (part) {
      var wanted = part.dataset.when.split("=");
      var field = form.elements[wanted[0]];
      var shown = field && wanted[1].split("|").indexOf(field.value) >= 0;
      part.hidden = !shown;
      part.querySelectorAll("input, select, textarea").forEach(function (one) {
        // What is hidden is not sent: the options of another sampler would be refused.
        one.disabled = !shown;
      });
    });
  }

  form.addEventListener("change", choose);
  choose();

  // What is wrong in a folded part cannot be shown before that is opened.
  form.addEventListener(
    "invalid",
    function (event) {
      for (var fold = event.target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
        fold.open = true;
      }
    },
    true
  );

  // The cost is that of the definition that was looked at, not of one that was changed since.
  var cost = document.getElementById("cost");
  form.addEventListener("input", function () {
    cost.textContent = "";
  });

  var check = document.getElementById("check");
  check.addEventListener("click", function (event) {
    event.preventDefault();
    if (!form.reportValidity()) {
      return;
    }
    var panel = document.getElementById("dry-run");
    check.disabled = true;
    panel.setAttribute("aria-busy", "true");
    panel.innerHTML = '<p class="wait">Looking at the program and its space …</p>';
    fetch(check.getAttribute("formaction"), {
      method: "POST",
      body: new URLSearchParams(new FormData(form)),
      credentials: "same-origin",
      headers: { Accept: "text/html" },
    })
      .then(function (answer) {
        return answer.text();
      })
      .then(function (text) {
        var answer = new DOMParser().parseFromString(text, "text/html");
        var fresh = answer.getElementById("dry-run");
        if (fresh) {
          cost.replaceChildren.apply(cost, Array.prototype.slice.call(answer.getElementById("cost").childNodes));
          panel.replaceChildren.apply(panel, Array.prototype.slice.call(fresh.childNodes));
        } else {
          panel.textContent = "The service refused the request: load the page again.";
        }
        var first = panel.querySelector("h2, .problem") || panel;
        first.tabIndex = -1;
        first.focus({ preventScroll: true });
        panel.scrollIntoView({ block: "start" });
      })
      .catch(function () {
        panel.textContent = "The service cannot be reached: try again.";
      })
      .finally(function () {
        check.disabled = false;
        panel.removeAttribute("aria-busy");
      });
  });
})();
