// What the gateway has to know of each model provider's wire (docs/reference/sessions.md#model-gateway,
// docs/reference/compile.md#models): which calls there are and which cost money, how a call is bound to the declared model,
// what `model.gateway` becomes in a body, where an answer tells its usage, and how an error has to look so that a harness
// understands it. The vendors' own words and addresses stand here and nowhere else. It decides nothing about caps, keeps no
// sums, never holds an answer back and never logs; keys are handed in as a function and go into one header of one request.

export { type Endpoint, endpointOf } from './wire.ts';
export { errorBody, type ErrorKind } from './errors.ts';
export { createMeter, mayPass, type Metered, opensWithFailure } from './meter.ts';
export { type Shortened, shorten } from './long.ts';
export { BodyProblem } from './problem.ts';
export { type PreparedCall, prepareBody } from './request.ts';
export { createSlugs } from './slugs.ts';
export {
  createUpstream,
  type ModelUpstream,
  type ModelUpstreamOptions,
  type UpstreamAnswer,
  UpstreamFailure,
} from './upstream.ts';
