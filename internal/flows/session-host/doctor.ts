// What is wrong with running sessions, and what to do about each (`svc doctor`). Reads only.

import { variableOf } from '../../adapters/harness/harness.ts';
import { findSessionTroubles, type SessionTroubles } from '../../adapters/store/sessions/session-troubles.ts';
import { modelSettings } from '../../base/config/model-settings.ts';
import type { ModelProvider } from '../../domain/spec.ts';
import { endedTheProcess } from '../in-hand.ts';
import { type FlowContext, type ProjectRef, catalogOf } from '../context.ts';
import { missingKey } from './model-keys.ts';
import { inTime } from './looks.ts';
import { factsHere, missingOf, openedProviders, openProvider, ownSandboxes, providersOf } from './sandboxes.ts';

export interface SessionCheck {
  readonly name: string;
  readonly status: 'ok' | 'warning' | 'error';
  readonly message: string;
  readonly hint?: string;
}

/**
 * A daemon that runs no sessions tells of sandboxes, harnesses and keys what the sessions that wait for them say. Whose
 * sandbox is left over is told to who `operates` the installation: it may be another organization's; and so are words of
 * engines and of the machine, which hold names and addresses of hosts.
 */
export async function diagnoseSessions(
  ctx: FlowContext,
  project: ProjectRef,
  { operates }: { readonly operates: boolean },
): Promise<SessionCheck[]> {
  const found = await findSessionTroubles(ctx.db, project.id, ctx.runtime.now());
  return [
    ...(await checkSandbox(ctx, operates)),
    ...(await checkNamed(ctx, operates)),
    ...(await checkWays(ctx, operates)),
    ...(await checkLeft(ctx, operates)),
    ...(await checkHarnesses(ctx, found)),
    ...(await checkKeys(ctx, project, found)),
    ...checkElsewhere(ctx, found),
    ...found.blocked.map(({ id, agent, reason }): SessionCheck => {
      const message = `session ${id} of ${agent} waits for its spend cap: ${reason}`;
      return {
        name: 'blocked',
        status: 'warning',
        message,
        hint: reason.includes('maxPerSessionUsd')
          ? `raise spendCaps of ${agent}, or svc session archive ${id}`
          : `raise spendCaps of ${agent}, or wait for the reset`,
      };
    }),
    ...found.failing.map(({ id, agent, state, reason }): SessionCheck => {
      const how = state === 'failed' ? 'failed' : state === 'idle' ? 'could not answer' : 'does not come up';
      const message = `the latest session of ${agent} ${how}: ${reason}`;
      if (reason === endedTheProcess) {
        const parked = `the launch of session ${id} of ${agent} ended the daemon three times in a row and is not tried any more (${reason})`;
        return {
          name: 'parked',
          status: 'error',
          message: parked,
          hint: `svc agent start ${agent} begins another one`,
        };
      }
      return { name: 'failed', status: 'warning', message, hint: `svc session show ${id}` };
    }),
    ...found.unreplaced.map(({ id, agent, live }): SessionCheck => {
      const message = `the successor of session ${id} of ${agent} ended the daemon three times in a row and is not made any more (${endedTheProcess})`;
      const start = `svc agent start ${agent}`;
      return {
        name: 'parked',
        status: 'error',
        message,
        hint: live ? `svc session archive ${id}, then ${start}` : `${start} begins another one`,
      };
    }),
    ...found.asking.map(({ id, agent, permission, title }): SessionCheck => {
      const message = `session ${id} of ${agent} waits for an answer: ${title}`;
      return { name: 'permission', status: 'warning', message, hint: `svc session allow ${id} ${permission}` };
    }),
  ];
}

/** What is said of the machine to who may know it; else in its place who does. */
const toOperators = (operates: boolean, said: string): string => (operates ? `: ${said}` : '');
const elsewhere = (operates: boolean): { hint?: string } =>
  operates ? {} : { hint: 'svc doctor of the administrators of the installation says why' };

async function checkSandbox(ctx: FlowContext, operates: boolean): Promise<SessionCheck[]> {
  const { host } = ctx;
  if (host === undefined) return [];
  try {
    const { opened } = await openProvider(ctx, host, undefined);
    if (opened instanceof Error) throw opened;
    const facts = factsHere(ctx, opened.facts);
    const { isolation } = facts.capabilities;
    const fence =
      !host.fenced && host.allow === undefined && facts.engine === undefined
        ? 'the network is open, services on this machine’s own addresses included (sessions.fenced is off, and no sandboxes.network is given)'
        : facts.capabilities.networkFence
          ? `the network is fenced${host.allow === undefined ? '' : `; ${host.allow.length} entries of sandboxes.network are reached`}`
          : 'the network is NOT fenced, though the configuration asks for it';
    const lacking = Object.entries(missingOf(facts)).map(([name, why]) => `${name} (${why})`);
    const lacks = lacking.length === 0 ? '' : `; without ${lacking.join(', ')}`;
    const message = `${facts.inUse}${toOperators(operates, facts.why)}; ${fence}; resources ${facts.resources}${lacks}`;
    if (isolation !== 'none') return [{ name: 'sandbox', status: 'ok', message }];
    const hint = 'install bubblewrap, or set SVC_SANDBOX=command with a program that isolates';
    return [{ name: 'sandbox', status: 'warning', message, hint }];
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const said = `no session can be started${toOperators(operates, message)}`;
    return [{ name: 'sandbox', status: 'error', message: said, ...elsewhere(operates) }];
  }
}

/** Providers that presets name beside the default, each by itself. */
async function checkNamed(ctx: FlowContext, operates: boolean): Promise<SessionCheck[]> {
  const { host } = ctx;
  const views = host === undefined || host.providers.length === 0 ? [] : await providersOf(ctx, host);
  return views
    .filter(({ isDefault }) => !isDefault)
    .map(({ provider, works, why }): SessionCheck => {
      const message = `${provider} ${works ? 'works' : 'does not work'}${toOperators(operates, why)}; presets name it`;
      if (works) return { name: 'sandbox', status: 'ok', message };
      return { name: 'sandbox', status: 'error', message, ...elsewhere(operates) };
    });
}

/** Whether sandboxes that come to this daemon find it. */
async function checkWays(ctx: FlowContext, operates: boolean): Promise<SessionCheck[]> {
  const checks: SessionCheck[] = [];
  for (const { opened } of ctx.host === undefined ? [] : await openedProviders(ctx, ctx.host)) {
    // That it does not open is told where it is named.
    if (opened instanceof Error) continue;
    const { provider } = opened;
    const trouble = await inTime(provider, 'trouble', async () => provider.trouble?.());
    if (typeof trouble !== 'string') continue;
    const message = operates ? trouble : 'pods do not find this daemon where they are told to dial it';
    if (checks.some((one) => one.message === message)) continue;
    checks.push({ name: 'sandbox', status: 'warning', message, hint: 'sandboxes.kubernetes.dial.address' });
  }
  return checks;
}

/** Reaped every minute: what is still there could not be ended. Of an engine that opened and says nothing any more it is not known. */
async function checkLeft(ctx: FlowContext, operates: boolean): Promise<SessionCheck[]> {
  const { items, away } = await ownSandboxes(ctx);
  const checks = away
    .filter(({ isOpen }) => isOpen)
    .map(({ provider, why }): SessionCheck => {
      const message = `${provider} does not say which sandboxes it has${toOperators(operates, why)}`;
      return { name: 'sandbox', status: 'error', message, ...elsewhere(operates) };
    });
  const left = items.filter(({ state }) => state === 'left');
  const [first] = left;
  if (first === undefined) return checks;
  const which = operates ? `: ${first.session}${left.length > 1 ? ' and others' : ''}` : '';
  const message = `${left.length} sandbox${left.length === 1 ? '' : 'es'} that no live session owns ${left.length === 1 ? 'is' : 'are'} left here${which}`;
  return [...checks, { name: 'sandbox', status: 'warning', message, hint: 'svc sandbox reap' }];
}

async function checkHarnesses(
  { host, config }: FlowContext,
  { agents, waiting }: SessionTroubles,
): Promise<SessionCheck[]> {
  if (host === undefined) return [];
  const commands = { 'harness-a': config.harnessACommand, 'harness-b': config.harnessBCommand };
  const checks: SessionCheck[] = [];
  const awaited = waiting.filter(({ waitsFor }) => waitsFor === 'harness');
  for (const harness of new Set([...agents, ...awaited].map((one) => one.harness))) {
    const program = await host.program(harness);
    if (!('missing' in program)) continue;
    const held = waiting.find((one) => one.waitsFor === 'harness' && one.harness === harness)?.sessions ?? 0;
    const sessions = held === 0 ? 'no session waits for it yet' : howMany(held);
    const install = `svc harness install ${harness}`;
    checks.push({
      name: 'harness',
      status: held === 0 ? 'warning' : 'error',
      message: `${program.missing} (${sessions})`,
      // What is configured goes before what is installed.
      hint:
        commands[harness] === undefined ? install : `correct ${variableOf(harness)}, or leave it out and: ${install}`,
    });
  }
  return checks;
}

const howMany = (sessions: number): string => `${sessions} session${sessions === 1 ? ' waits' : 's wait'}`;

/** What only daemons that run sessions can look at, where this one is none. */
function checkElsewhere({ host }: FlowContext, { waiting }: SessionTroubles): SessionCheck[] {
  if (host !== undefined) return [];
  return waiting.map(({ waitsFor, harness, sessions, reason }): SessionCheck => {
    const { [waitsFor]: said } = {
      harness: ['harness', `where daemons run sessions: svc harness install ${harness}`],
      key: ['model-key', 'give it to the daemons that run sessions'],
      engine: ['sandbox', 'svc sandbox show'],
    } as const;
    const [name, hint] = said;
    return { name, status: 'error', message: `${reason} (${howMany(sessions)})`, hint };
  });
}

/** Of files and variables each daemon has its own. */
const isEverywhere = ({ config }: FlowContext, provider: ModelProvider): boolean =>
  modelSettings(config.file, config.fileDir).keys[provider].kind === 'secret';

async function checkKeys(ctx: FlowContext, project: ProjectRef, { agents }: SessionTroubles): Promise<SessionCheck[]> {
  const { harnesses } = catalogOf(ctx).catalog;
  const used = new Set<ModelProvider>(agents.map((one) => one.provider ?? harnesses[one.harness].defaultProvider));
  const checks: SessionCheck[] = [];
  for (const provider of used) {
    if (ctx.host === undefined && !isEverywhere(ctx, provider)) continue;
    const missing = await missingKey(ctx, project, provider);
    if (missing !== undefined) checks.push({ name: 'model-key', status: 'warning', ...missing });
  }
  return checks;
}
