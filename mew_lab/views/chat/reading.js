// Tells which messages a person has had in sight: whole, for a second, on a page that is visible. Only these are read. A
// message that is folded, cut, or taller than its window is never read by being in sight.

const IN_SIGHT = 1000;
const AT_ONCE = 100;

// `isWhole(node)` is whether all of a message is shown; `read(nodes)` gets those that were in sight, together.
export function makeReader(isWhole, read) {
  const since = new Map();
  let timer = null;
  const watch = new IntersectionObserver(
    (changes) => {
      for (const { target, intersectionRatio } of changes) {
        // Less than a pixel may be missing where the page is scaled.
        if (intersectionRatio < 0.99) since.delete(target);
        else if (!since.has(target)) since.set(target, performance.now());
      }
      plan();
    },
    { threshold: [0.99, 1] },
  );
  const turn = () => {
    for (const node of since.keys()) since.set(node, performance.now());
    plan();
  };
  document.addEventListener("visibilitychange", turn);

  function plan() {
    clearTimeout(timer);
    timer = since.size && !document.hidden ? setTimeout(look, IN_SIGHT) : null;
  }

  function look() {
    const now = performance.now(),
      done = [];
    for (const [node, at] of since) {
      if (!node.isConnected) since.delete(node);
      else if (now - at >= IN_SIGHT - 5 && isWhole(node) && done.length < AT_ONCE) done.push(node);
    }
    for (const node of done) leave(node);
    if (done.length) read(done);
    plan();
  }

  function leave(node) {
    since.delete(node);
    watch.unobserve(node);
  }

  return {
    follow: (node) => watch.observe(node),
    leave,
    // After a change of what is shown of a message, its time in sight begins anew.
    restart(node) {
      if (since.has(node)) since.set(node, performance.now());
    },
    end() {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", turn);
      watch.disconnect();
    },
  };
}
