// How a turn ended, from everything known of it: the harness's answer, what it did on the way, and what the model
// gateway saw. Pure. A failed turn is never taken for a good one: a normal end counts only when nothing speaks against
// it. Cancelling explains an error that follows it; it does not explain one that the gateway refused.

import { fieldsOf, numberOf, type SessionFailure, sessionFailureOf, textOf } from './updates.ts';
import { type FailureCause, failureCharsMax, type ModelEvidence, type TokenUsage, type TurnOutcome } from './types.ts';

/** What the connection noted while a turn ran. */
export interface TurnFacts {
  /** Text, thought or a tool call was seen. */
  readonly active: boolean;
  readonly cancelRequested: boolean;
  /** The last failure told in an update of this turn that no later activity has overtaken. */
  readonly told?: SessionFailure;
  readonly evidence?: ModelEvidence;
}

export type TurnAnswer =
  | { readonly response: unknown }
  | { readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } };

/**
 * Characters of each half of what an error says: more than is shown of it. In two long texts that repeat themselves the runtime
 * looks for one in the other for hours.
 */
const saidCharsMax = 4 * failureCharsMax;

/** What an error says. Some say that there is one, and why beside that. */
export function errorText(message: string, data: unknown): string {
  const said = message.slice(0, saidCharsMax);
  const details = (textOf(fieldsOf(data)['details']) ?? '').slice(0, saidCharsMax);
  return said.includes(details) ? said : `${said}: ${details}`;
}

/** The error of an answer as it was read, which may be anything. */
export function errorOf(given: unknown): Extract<TurnAnswer, { error: unknown }>['error'] {
  const { code, message, data } = fieldsOf(given);
  const said = errorText(textOf(message) ?? 'Invalid request', data);
  return { code: typeof code === 'number' ? code : internalError, message: said, data };
}

/** Of a prompt to a session that the harness has lost, as where the program behind it has ended: a new process has it still. */
export const isForgotten = (answer: TurnAnswer, sessionId: string | undefined): boolean =>
  'error' in answer && answer.error.code === resourceNotFound && fieldsOf(answer.error.data)['sessionId'] === sessionId;

interface Failure {
  readonly cause: FailureCause;
  readonly retryable: boolean;
}

const internalError = -32603;
const authRequired = -32000;
const requestCancelled = -32800;
const resourceNotFound = -32002;

/** By HTTP status of the last model call; 0 is an answer that failed after it had begun. */
export function failureOfStatus(status: number): Failure | undefined {
  if (status >= 100 && status < 400) return undefined;
  switch (status) {
    case 401:
    case 403:
      return { cause: 'authentication', retryable: false };
    case 402:
      return { cause: 'spend_cap', retryable: false };
    case 429:
      return { cause: 'rate_limit', retryable: true };
    case 408:
    case 425:
      return { cause: 'connection', retryable: true };
    case 413:
      return { cause: 'context', retryable: false };
    case 503:
    case 529:
      return { cause: 'overloaded', retryable: true };
    default:
      if (status >= 500) return { cause: 'server', retryable: true };
      return status >= 400 ? { cause: 'bad_request', retryable: false } : { cause: 'connection', retryable: true };
  }
}

/** `data.errorKind` of a JSON-RPC error. */
const byErrorKind: { readonly [kind: string]: Failure } = {
  authentication_failed: { cause: 'authentication', retryable: false },
  oauth_org_not_allowed: { cause: 'authentication', retryable: false },
  billing_error: { cause: 'spend_cap', retryable: false },
  account_on_hold: { cause: 'spend_cap', retryable: false },
  verification_required: { cause: 'authentication', retryable: false },
  cloud_credential_error: { cause: 'authentication', retryable: false },
  rate_limit: { cause: 'rate_limit', retryable: true },
  overloaded: { cause: 'overloaded', retryable: true },
  server_error: { cause: 'server', retryable: true },
  invalid_request: { cause: 'bad_request', retryable: false },
  model_not_found: { cause: 'bad_request', retryable: false },
  max_output_tokens: { cause: 'context', retryable: false },
  worker_shutdown: { cause: 'connection', retryable: true },
  transport_lost: { cause: 'connection', retryable: true },
};

/** The gateway's refusal as the harnesses quote it: to them it is an error of service or connection like others. */
const quotedCap = /\b(?:status|error:?) 402\b/i;

function failureOfSession({ category, actions, title }: SessionFailure): Failure {
  if (quotedCap.test(title)) return { cause: 'spend_cap', retryable: false };
  const retry = actions.includes('retry');
  switch (category) {
    case 'access':
      return { cause: 'authentication', retryable: false };
    case 'limit':
      return retry ? { cause: 'rate_limit', retryable: true } : { cause: 'context', retryable: false };
    case 'connection':
      return { cause: 'connection', retryable: true };
    case 'service':
      return { cause: 'server', retryable: true };
    case 'request':
      return { cause: 'bad_request', retryable: false };
    default:
      return { cause: 'unknown', retryable: retry };
  }
}

/** `usage` of a prompt's response; undefined where it is absent, null or all zeros, which says nothing. */
export function usageOfResponse(response: unknown): TokenUsage | undefined {
  const usage = fieldsOf(fieldsOf(response)['usage']);
  const inputTokens = numberOf(usage['inputTokens']) ?? 0;
  const outputTokens = numberOf(usage['outputTokens']) ?? 0;
  const totalTokens = numberOf(usage['totalTokens']) ?? inputTokens + outputTokens;
  if (totalTokens + inputTokens + outputTokens === 0) return undefined;
  const cachedReadTokens = numberOf(usage['cachedReadTokens']);
  const cachedWriteTokens = numberOf(usage['cachedWriteTokens']);
  const thoughtTokens = numberOf(usage['thoughtTokens']);
  return {
    inputTokens,
    outputTokens,
    totalTokens,
    ...(cachedReadTokens !== undefined && { cachedReadTokens }),
    ...(cachedWriteTokens !== undefined && { cachedWriteTokens }),
    ...(thoughtTokens !== undefined && { thoughtTokens }),
  };
}

/** The gateway's word on the turn's last model call, where it failed. */
function witnessed(evidence: ModelEvidence | undefined): (Failure & { message: string }) | undefined {
  if (evidence === undefined || evidence.calls === 0 || evidence.lastStatus === undefined) return undefined;
  const failure = failureOfStatus(evidence.lastStatus);
  if (failure === undefined) return undefined;
  const status = evidence.lastStatus === 0 ? 'did not answer to its end' : `answered ${evidence.lastStatus}`;
  const detail = evidence.lastError === undefined ? '' : `: ${evidence.lastError}`;
  return { ...failure, message: `the model ${status}${detail}` };
}

function failed(failure: Failure, message: string, usage: TokenUsage | undefined): TurnOutcome {
  return {
    kind: 'failed',
    cause: failure.cause,
    retryable: failure.retryable,
    message: message.slice(0, failureCharsMax),
    ...(usage !== undefined && { usage }),
  };
}

function ofError(error: Extract<TurnAnswer, { error: unknown }>['error'], facts: TurnFacts): TurnOutcome {
  const witness = witnessed(facts.evidence);
  if (facts.cancelRequested && witness?.cause !== 'spend_cap') return { kind: 'cancelled', byClient: true };
  if (witness !== undefined) return failed(witness, `${witness.message} (${error.message})`, undefined);
  if (error.code === authRequired)
    return failed({ cause: 'authentication', retryable: false }, error.message, undefined);
  if (error.code === requestCancelled) return { kind: 'cancelled', byClient: false };
  if (quotedCap.test(error.message)) return failed({ cause: 'spend_cap', retryable: false }, error.message, undefined);
  const kind = textOf(fieldsOf(error.data)['errorKind']);
  const known = kind !== undefined && Object.hasOwn(byErrorKind, kind) ? byErrorKind[kind] : undefined;
  return failed(known ?? { cause: 'unknown', retryable: false }, error.message, undefined);
}

/**
 * The outcome of a turn that was answered (a turn that was not is `lost`, which the connection says by itself).
 * The gateway's evidence goes before the harness's own word (docs/reference/sessions.md#harnesses).
 */
export function classifyTurn(answer: TurnAnswer, facts: TurnFacts): TurnOutcome {
  if ('error' in answer) return ofError(answer.error, facts);
  const response = fieldsOf(answer.response);
  const usage = usageOfResponse(response);
  const withUsage = usage === undefined ? {} : { usage };
  const witness = witnessed(facts.evidence);
  const told = sessionFailureOf(response['_meta']) ?? facts.told;
  const failure = told !== undefined && told.severity !== 'warning' && told.severity !== 'info' ? told : undefined;
  switch (response['stopReason']) {
    case 'cancelled':
      // One that nobody asked for: after a rejected permission, or because the model went away.
      if (!facts.cancelRequested && witness !== undefined) return failed(witness, witness.message, usage);
      return { kind: 'cancelled', byClient: facts.cancelRequested, ...withUsage };
    case 'refusal':
      return { kind: 'refused', ...withUsage };
    case 'max_tokens':
    case 'max_turn_requests':
      return { kind: 'cut', limit: response['stopReason'], ...withUsage };
    case 'end_turn':
      break;
    default:
      return failed(
        { cause: 'unknown', retryable: false },
        `the harness ended the turn with ${JSON.stringify(response['stopReason'] ?? null)}`,
        usage,
      );
  }
  if (witness !== undefined && facts.cancelRequested && witness.cause !== 'spend_cap') {
    return { kind: 'cancelled', byClient: true, ...withUsage };
  }
  if (witness !== undefined) return failed(witness, failure?.title ?? witness.message, usage);
  if (failure !== undefined) {
    if (facts.cancelRequested) return { kind: 'cancelled', byClient: true, ...withUsage };
    return failed(failureOfSession(failure), failure.title, usage);
  }
  const answered = usage !== undefined || (facts.evidence?.lastStatus !== undefined && facts.evidence.calls > 0);
  if (!facts.active && !answered) {
    if (facts.cancelRequested) return { kind: 'cancelled', byClient: true };
    return failed(
      { cause: 'silent', retryable: true },
      'the harness ended the turn without a word, a tool call or a token of its model',
      undefined,
    );
  }
  return { kind: 'finished', ...withUsage };
}
