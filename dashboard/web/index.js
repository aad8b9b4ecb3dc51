// The entry that the host's dashboard loads as a classic script: registers the tab, then loads the page as ES modules.
// There is no build: what lies in this folder is what the browser runs.
(function () {
  "use strict";
  const sdk = window.__HERMES_PLUGIN_SDK__;
  if (!sdk || !window.__HERMES_PLUGINS__) return;
  const here = document.currentScript.src;
  const { createElement: h } = sdk.React;

  function Lcm() {
    const [page, setPage] = sdk.hooks.useState(null);
    const [error, setError] = sdk.hooks.useState("");
    sdk.hooks.useEffect(() => {
      import(new URL("app.mjs", here).href).then((found) => setPage(() => found.App), (why) => setError(String(why)));
    }, []);
    if (error) return h("p", { role: "alert" }, error);
    return page ? h(page) : h("p", { role: "status" }, "…");
  }

  window.__HERMES_PLUGINS__.register("hermes-lcm", Lcm);
})();
