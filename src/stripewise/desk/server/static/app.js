// What all pages share: questions before deletions, copying, live parts, uploads, the menu of narrow screens.
(function () {
  "use strict";

  function csrf() {
    var meta = document.querySelector('meta[name="csrf"]');
    return meta ? meta.content : "";
  }

  function say(text) {
    var toast = document.getElementById("toast");
    toast.textContent = text;
    window.clearTimeout(say.timer);
    say.timer = window.setTimeout(function () {
      toast.textContent = "";
    }, 5000);
  }

  // A page that is being left asks for nothing more: what it shows may be what is being deleted.
  var leaving = new AbortController();

  function signal() {
    return leaving.signal;
  }

  Object.assign(window.stripewise, { csrf: csrf, say: say, leaving: signal });

  // -- questions ---------------------------------------------------------------------------------------------

  document.addEventListener("submit", function (event) {
    var question = (event.submitter && event.submitter.dataset.confirm) || event.target.dataset.confirm;
    if (question && !window.confirm(question)) {
      event.preventDefault();
    }
    // A form that only asks may lead to a place of this very page.
    if (!event.defaultPrevented && event.target.method === "post") {
      leaving.abort();
      window.setTimeout(function () {
        // Still here: the answer never came, or was stopped. What was let go is fetched after all.
        leaving = new AbortController();
        document.dispatchEvent(new CustomEvent("stripewise-fresh"));
      }, 10000);
    }
  });
  window.addEventListener("pageshow", function (event) {
    if (event.persisted && (leaving.signal.aborted || document.querySelector("[data-live], [data-poll]"))) {
      // Gone back to: nothing here is live any more.
      window.location.reload();
    }
  });

  // -- the menu ----------------------------------------------------------------------------------------------

  var menu = document.querySelector("details.menu");
  if (menu) {
    menu.addEventListener("toggle", function () {
      document.body.classList.toggle("menu-open", menu.open);
    });
    document.addEventListener("keydown", function (event) {
      if (event.key === "Escape" && menu.open) {
        menu.open = false;
        menu.querySelector("summary").focus();
      }
    });
  }

  // -- copying -----------------------------------------------------------------------------------------------

  document.addEventListener("click", function (event) {
    var button = event.target.closest("button.copy");
    if (!button) {
      return;
    }
    window.stripewise.copied(button.parentNode.querySelector("code").textContent).then(
      function () {
        say("Copied");
      },
      function () {
        say("Copying is not allowed here: select the text by hand");
      }
    );
  });

  // -- live parts --------------------------------------------------------------------------------------------

  // The page itself is fetched again and its live parts are put in place of the old ones: what is shown live is written
  // by the same template as the page.
  function replaceParts(text) {
    var fresh = new DOMParser().parseFromString(text, "text/html");
    var before = document.querySelector("[data-state]");
    var after = fresh.querySelector("[data-state]");
    if (before && (!after || before.dataset.state !== after.dataset.state) && !(after && /running|queued/.test(after.dataset.state))) {
      // It has ended: the page now has sections that it did not have.
      window.location.reload();
      return;
    }
    var changed = false;
    document.querySelectorAll("[data-live], [data-part]").forEach(function (old) {
      var part = old.id && fresh.getElementById(old.id);
      if (!part || part.innerHTML === old.dataset.seen) {
        return;
      }
      var focused = document.activeElement && old.contains(document.activeElement) ? document.activeElement : null;
      // Whoever is typing or choosing something in this part is not to lose it.
      if (focused && /^(INPUT|SELECT|TEXTAREA)$/.test(focused.tagName)) {
        return;
      }
      var address = focused && focused.getAttribute("href");
      var open = Array.prototype.map.call(old.querySelectorAll("details[id][open]"), function (one) {
        return one.id;
      });
      var chosen = Array.prototype.map.call(old.querySelectorAll("input[type=checkbox]:checked"), function (one) {
        return one.value;
      });
      old.dataset.seen = part.innerHTML;
      // What a program prints changes no figure.
      changed = changed || old.id !== "live-output";
      old.replaceChildren.apply(old, Array.prototype.slice.call(part.childNodes));
      open.forEach(function (id) {
        var one = document.getElementById(id);
        if (one) {
          one.open = true;
        }
      });
      old.querySelectorAll("input[type=checkbox]").forEach(function (one) {
        one.checked = chosen.indexOf(one.value) >= 0;
      });
      if (address) {
        var again = Array.prototype.find.call(old.querySelectorAll("a[href]"), function (one) {
          return one.getAttribute("href") === address;
        });
        if (again) {
          again.focus();
        }
      }
    });
    if (connection !== null) {
      // The sign stands in a part that was just replaced.
      mark(connection);
    }
    if (changed) {
      document.dispatchEvent(new CustomEvent("stripewise-fresh"));
    }
  }

  var live = document.querySelector("[data-live]");
  var waiting = null;
  var busy = false;
  var late = false;

  function refresh() {
    waiting = null;
    if (busy) {
      late = true;
      return;
    }
    busy = true;
    fetch(window.location.href, { headers: { Accept: "text/html" }, credentials: "same-origin", signal: signal() })
      .then(function (answer) {
        if (answer.redirected && new URL(answer.url).pathname.endsWith("/login")) {
          window.location.reload();
          return "";
        }
        return answer.ok ? answer.text() : "";
      })
      .then(function (text) {
        if (text) {
          replaceParts(text);
        }
      })
      .catch(function () {
        if (!signal().aborted) {
          mark(false);
        }
      })
      .finally(function () {
        busy = false;
        if (late) {
          late = false;
          soon();
        }
      });
  }

  function soon() {
    if (waiting === null) {
      waiting = window.setTimeout(refresh, 800);
    }
  }

  var connection = null;

  function mark(connected) {
    connection = connected;
    document.body.dataset.connection = connected ? "live" : "lost";
    var sign = document.getElementById("connection");
    if (sign) {
      var state = document.querySelector("[data-state]");
      // An experiment that has ended is followed in case it is resumed; until then nothing moves.
      var moving = state && /running|queued/.test(state.dataset.state);
      sign.textContent = !connected ? "connection lost, trying again" : moving ? "live" : "";
    }
  }

  if (live && live.dataset.live && window.EventSource) {
    var source = new EventSource(live.dataset.live);
    var first = true;
    source.onopen = function () {
      mark(true);
      if (!first) {
        soon();
      }
      first = false;
    };
    source.onerror = function () {
      mark(false);
    };
    ["experiment", "run", "message", "lost"].forEach(function (name) {
      source.addEventListener(name, soon);
    });
    source.addEventListener("deleted", function () {
      if (live.dataset.home) {
        window.location.assign(document.querySelector("a.home").href);
      } else {
        soon();
      }
    });
    window.addEventListener("pagehide", function () {
      source.close();
    });
  }

  // What a worker is at is looked at again every two seconds, until nothing is open any more.
  window.setInterval(function () {
    if (document.querySelector("[data-poll]") && !document.hidden) {
      refresh();
    }
  }, 2000);

  // -- uploads -----------------------------------------------------------------------------------------------

  function failure(body, status) {
    var error = (body && body.error) || { what: "the service answered " + status, fix: "" };
    return error.what + (error.fix ? ". " + error.fix : "");
  }

  function show(form, text, wrong) {
    var place = form.querySelector("[data-answer]");
    place.textContent = text;
    place.classList.toggle("wrong", Boolean(wrong));
  }

  // A file goes as it is, under a name in the address; a table and a stack go as the texts of their files.
  function request(form) {
    var files = Array.prototype.map.call(form.querySelectorAll("input[type=file]"), function (one) {
      return one.files[0];
    });
    var headers = { "X-CSRF-Token": csrf(), Accept: "application/json" };
    var name = form.elements.name ? form.elements.name.value : files[0].name;
    if (form.dataset.kind === "table") {
      return Promise.all([files[0].text(), files[1].text()]).then(function (texts) {
        headers["Content-Type"] = "application/json";
        return { url: form.dataset.upload, headers: headers, body: JSON.stringify({ name: name, csv: texts[0], toml: texts[1] }) };
      });
    }
    if (form.dataset.kind === "stack") {
      return files[0].text().then(function (text) {
        headers["Content-Type"] = "application/json";
        return { url: form.dataset.upload, headers: headers, body: JSON.stringify({ name: name, toml: text }) };
      });
    }
    headers["Content-Type"] = "application/octet-stream";
    return Promise.resolve({ url: form.dataset.upload + "?name=" + encodeURIComponent(name), headers: headers, body: files[0] });
  }

  document.querySelectorAll("form[data-upload]").forEach(function (form) {
    form.addEventListener("submit", function (event) {
      event.preventDefault();
      var button = form.querySelector("button[type=submit]");
      button.disabled = true;
      form.setAttribute("aria-busy", "true");
      show(form, "Sending …");
      request(form)
        .then(function (made) {
          return fetch(made.url, { method: "POST", body: made.body, credentials: "same-origin", headers: made.headers });
        })
        .then(function (answer) {
          return answer.json().then(
            function (body) {
              return { ok: answer.ok, status: answer.status, body: body };
            },
            function () {
              return { ok: false, status: answer.status, body: null };
            }
          );
        })
        .then(function (answer) {
          if (!answer.ok) {
            show(form, failure(answer.body, answer.status), true);
            return;
          }
          window.location.assign(form.dataset.then.replace("{id}", encodeURIComponent(answer.body.id)));
        })
        .catch(function () {
          show(form, "The service cannot be reached, or the file cannot be read: try again", true);
        })
        .finally(function () {
          button.disabled = false;
          form.removeAttribute("aria-busy");
        });
    });
  });
})();
