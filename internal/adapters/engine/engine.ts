// Container engines, each as little as a sandbox needs of one: a box made from an image, a stream of bytes into it, its
// end, and lists by label. It speaks to the engine's own API over undici and starts no program of the host. It never
// decides what runs in a box, holds no secret of a session, and touches nothing that does not carry the label of its own
// installation. docs/reference/sessions.md#engines.

export { DockerEngine } from './docker.ts';
export { AccessError, inClusterAccess, kubeconfigAccess } from './kubernetes-access.ts';
export { KubernetesEngine } from './kubernetes.ts';
export { EngineError, isWaitingCode } from './types.ts';
export type { EngineFacts } from './types.ts';
