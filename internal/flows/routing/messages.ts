// What sessions are told of an event, in the order of docs/reference/routing.md#start-message, and the refs that a session's
// mounts are rendered to.

import { deliveredMessage, displayTitle, startMessage } from '../../core/session/session.ts';
import type { Json } from '../../domain/json.ts';
import { renderRefs } from '../sessions/sessions.ts';
import type { ProjectTriggers, RoutedAgent, RoutedTrigger } from './triggers.ts';

/** An event as it is told: with its attributions in the payload. */
export interface RenderInput {
  readonly id: string;
  readonly key: string;
  readonly payload: Json;
}

const sourceOf = (
  { owner, message, attachedUserPrompt, routing }: RoutedTrigger,
  { key, payload }: RenderInput,
  bytesMax: number,
) => ({
  event: key,
  bytesMax,
  payload,
  message,
  attachedUserPrompt,
  initialPrompt: owner.initialPrompt,
  isBindUnmatched: routing.kind === 'bind',
});

export interface Start {
  readonly text: string;
  readonly hiddenContext: string | null;
  readonly title: string;
  /** Mount path → ref. */
  readonly mountRefs: { readonly [mountPath: string]: string };
}

/** How a text is made: with the project's templates, and so many bytes at most. */
export interface Rendering extends Pick<ProjectTriggers, 'render'> {
  readonly bytesMax: number;
}

/** What a spawned session starts with. Its mount refs resolve: `refusedMount` has been asked. */
export function startOf({ render, bytesMax }: Rendering, trigger: RoutedTrigger, event: RenderInput): Start {
  const { owner } = trigger;
  const { text, hiddenContext, titleSeed } = startMessage(sourceOf(trigger, event, bytesMax), render);
  const title = displayTitle(owner.displayTitle, { titleSeed, payload: event.payload, fallback: owner.name }, render);
  const rendered = refsOf(owner, event);
  return { text, hiddenContext, title, mountRefs: rendered.ok ? rendered.refs : {} };
}

/** What a live session is told; `isConverted`: by a spawn route, which would have started a session. */
export const messageOf = (
  { render, bytesMax }: Rendering,
  trigger: RoutedTrigger,
  event: RenderInput,
  isConverted: boolean,
): string => deliveredMessage(sourceOf(trigger, event, bytesMax), render, isConverted);

/** Against the session run input wrapper (docs/reference/compile.md#mounts). */
const refsOf = ({ mounts }: Pick<RoutedAgent, 'mounts'>, { id, payload }: RenderInput) =>
  renderRefs(mounts, { triggerEventId: id, payload });

/** Why a session of the agent cannot start from this event, or null (docs/reference/compile.md#mounts: refused at spawn). */
export function refusedMount(owner: Pick<RoutedAgent, 'mounts'>, event: RenderInput): string | null {
  if (owner.mounts.length === 0) return null;
  const rendered = refsOf(owner, event);
  if (rendered.ok) return null;
  const { mountPath, missing } = rendered;
  return `spawn refused: the ref of the mount ${mountPath} cannot be resolved, the event has no ${missing.join(', ')}`;
}
