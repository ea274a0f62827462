// What a cluster says, in the words of the service: how far a pod is, how it ended, and why a request was refused.
// Pure: from the objects of the API to values. docs/reference/sessions.md#engines.

import { ApiError, UnreachableError } from './kubernetes-client.ts';
import { AccessError } from './kubernetes-access.ts';
import { type BoxEvent, EngineError, type EngineErrorCode } from './types.ts';
import type { Pod } from './kubernetes-types.ts';

/** How far a pod is. */
export type Progress =
  | { readonly kind: 'scheduling'; readonly unschedulable?: string }
  | { readonly kind: 'pulling' | 'starting' | 'running' }
  | { readonly kind: 'failed'; readonly code: EngineErrorCode; readonly reason: string }
  | Extract<BoxEvent, { kind: 'ended' | 'evicted' }>;

const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ').trim().slice(0, 500);

const missing = /not found|manifest unknown|does not exist|repository name not known|no such image|name unknown/i;
const refused = /unauthorized|denied|forbidden|authentication required|no basic auth|\b40[13]\b/i;

/** Why an image did not come. A registry that hides what it has says `denied` for what it has not. */
export function imageError(reason: string, message: string): { code: EngineErrorCode; reason: string } {
  const text = oneLine(`${reason}${message === '' ? '' : `: ${message}`}`);
  if (reason === 'InvalidImageName' || reason === 'ErrImageNeverPull') return { code: 'image-missing', reason: text };
  if (refused.test(message)) return { code: 'image-refused', reason: text };
  return { code: missing.test(message) ? 'image-missing' : 'pull-failed', reason: text };
}

const imageReasons = new Set([
  'ErrImagePull',
  'ImagePullBackOff',
  'InvalidImageName',
  'ErrImageNeverPull',
  'ImageInspectError',
  'RegistryUnavailable',
]);
/** The kubelet cannot make a container of the manifest and the image. */
const configReasons = new Set(['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError']);

function waitingProgress(reason: string, message: string): Progress {
  if (imageReasons.has(reason)) return { kind: 'failed', ...imageError(reason, message) };
  if (configReasons.has(reason)) {
    const code = /runtime ?(class|handler).*(not found|not configured|no runtime)/i.test(message)
      ? 'runtime-missing'
      : 'pod-rejected';
    return { kind: 'failed', code, reason: oneLine(`${reason}: ${message}`) };
  }
  return { kind: reason === 'PodInitializing' ? 'starting' : 'pulling' };
}

/** Ends that a pod's own programs did not bring: the engine's, and not the session's. */
const byEngine = new Set([
  'Evicted',
  'Preempting',
  'NodeLost',
  'NodeShutdown',
  'NodeAffinity',
  'Terminated',
  'Shutdown',
  'UnexpectedAdmissionError',
  'OutOfcpu',
  'OutOfmemory',
  'OutOfpods',
]);

function endOf(pod: Pod): Progress {
  const { reason = '', message = '', conditions = [], containerStatuses = [] } = pod.status ?? {};
  const disruption = conditions.find(({ type, status }) => type === 'DisruptionTarget' && status === 'True');
  if (byEngine.has(reason) || disruption !== undefined) {
    const words = reason === '' ? [disruption?.reason, disruption?.message] : [reason, message];
    return { kind: 'evicted', reason: oneLine(words.filter((one) => one !== undefined && one !== '').join(': ')) };
  }
  const terminated = containerStatuses[0]?.state?.terminated;
  // The process could not be started at all: the image lacks what the service asks of one.
  if (terminated?.reason === 'StartError' || terminated?.reason === 'ContainerCannotRun')
    return {
      kind: 'failed',
      code: 'pod-rejected',
      reason: oneLine(`${terminated.reason}: ${terminated.message ?? ''}`),
    };
  const oom = terminated?.reason === 'OOMKilled';
  const why = [reason, terminated?.reason].find((one) => one !== undefined && one !== '' && one !== 'Completed');
  return { kind: 'ended', code: terminated?.exitCode ?? null, oom, reason: oneLine(why ?? message) };
}

/** How far a pod is, as its status says. One that is being deleted is evicted: who deletes it himself does not ask. */
export function progressOf(pod: Pod): Progress {
  const { phase, conditions = [], containerStatuses = [] } = pod.status ?? {};
  if (phase === 'Succeeded' || phase === 'Failed') return endOf(pod);
  const state = containerStatuses[0]?.state;
  if (state?.terminated !== undefined) return endOf(pod);
  if (pod.metadata?.deletionTimestamp !== undefined) {
    const why = conditions.find(({ type, status }) => type === 'DisruptionTarget' && status === 'True');
    return { kind: 'evicted', reason: oneLine(why?.reason ?? 'somebody deleted the pod') };
  }
  if (state?.running !== undefined) return { kind: 'running' };
  const scheduled = conditions.find(({ type }) => type === 'PodScheduled');
  if (scheduled?.status === 'False' && scheduled.reason === 'Unschedulable')
    return { kind: 'scheduling', unschedulable: oneLine(scheduled.message ?? 'Unschedulable') };
  if (pod.spec?.nodeName === undefined && scheduled?.status !== 'True') return { kind: 'scheduling' };
  if (state?.waiting?.reason !== undefined) return waitingProgress(state.waiting.reason, state.waiting.message ?? '');
  return { kind: 'pulling' };
}

/** A refusal of 403 that is the namespace's or an admission's, and not one of rights. */
function forbidden(message: string): EngineErrorCode {
  if (/exceeded quota/i.test(message)) return 'quota-exceeded';
  if (/RuntimeClass .*not found/i.test(message)) return 'runtime-missing';
  // What the authorizer says: `User "x" cannot create resource "pods" …`. All else comes from behind it.
  if (
    /cannot \w+ (resource|path|deletecollection)|being terminated|^Forbidden$|^the API server answered/i.test(message)
  )
    return 'engine-refused';
  return 'pod-rejected';
}

/** What a failed call means to a launch. Errors that are none of the cluster's are given back as they are. */
export function engineError(error: unknown): Error {
  if (error instanceof UnreachableError)
    return new EngineError('engine-unreachable', oneLine(error.message), { cause: error });
  if (error instanceof AccessError) return new EngineError('engine-refused', error.message, { cause: error });
  if (!(error instanceof ApiError)) return error instanceof Error ? error : new Error(String(error));
  const message = oneLine(error.message);
  const { code, status } = error;
  const word: EngineErrorCode =
    code === 401
      ? 'engine-refused'
      : code === 403
        ? forbidden(message)
        : code === 400 || code === 413 || code === 422
          ? 'pod-rejected'
          : code === 404 && status.details?.kind === 'namespaces'
            ? 'engine-refused'
            : 'engine-unreachable';
  return new EngineError(word, message, { cause: error });
}
