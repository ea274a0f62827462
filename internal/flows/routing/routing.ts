// The door of routing: what an event does to agents. It loads what core/match and core/route decide from, and hands
// their decisions on; it decides nothing itself, and explaining changes nothing (docs/reference/where.md#explanations: triggers/explain,
// events/{id}/explain). Skipped triggers take no part: they have no connection that an event could come through.

export { explainEvent, explainTriggers } from './explain.ts';
export { startRouting, sweepRouting, wakeRouting } from './wake.ts';
