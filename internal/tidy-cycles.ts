// Cycles of imports, of types too: who imports whom is a graph that a reader can go through from top to bottom. The linter
// sees cycles of values only.

/** Groups of files that reach each other through what they import, each in the order of its paths; by path. */
export function cyclesOf(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const order = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  const visit = (path: string): number => {
    const at = order.size;
    order.set(path, at);
    stack.push(path);
    let lowest = at;
    for (const target of graph.get(path) ?? []) {
      if (!graph.has(target)) continue;
      const seen = order.get(target);
      if (seen === undefined) lowest = Math.min(lowest, visit(target));
      else if (stack.includes(target)) lowest = Math.min(lowest, low.get(target) ?? seen);
    }
    low.set(path, lowest);
    if (lowest < at) return lowest;
    const group = stack.splice(stack.indexOf(path));
    if (group.length > 1 || (graph.get(path) ?? []).includes(path)) cycles.push(group.sort());
    return lowest;
  };
  for (const path of [...graph.keys()].sort()) if (!order.has(path)) visit(path);
  return cycles.sort((a, b) => ((a[0] ?? '') < (b[0] ?? '') ? -1 : 1));
}
