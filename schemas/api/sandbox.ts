// What sessions run in: the providers of a host, and the sandboxes of the installation. For administrators of the
// organization that the installation began with.

import * as v from 'valibot';
import { sandboxProviders } from '../../internal/domain/sandbox.ts';
import { named, operation } from './operation.ts';

const common = { tag: 'server', scope: 'self', permission: 'jobs:retry' } as const;

const provider = named(
  'SandboxProvider',
  v.object({
    provider: v.picklist(sandboxProviders),
    /** The one of SVC_SANDBOX; others are named by presets. */
    isDefault: v.boolean(),
    works: v.boolean(),
    /** What it is, or why it does not work. */
    why: v.string(),
    version: v.nullable(v.string()),
    runtimes: v.array(v.string()),
    capabilities: v.nullable(
      v.object({
        isolation: v.picklist(['none', 'namespace', 'container', 'gvisor', 'vm', 'external']),
        injectionEdge: v.boolean(),
        snapshot: v.boolean(),
        resources: v.boolean(),
        networkFence: v.boolean(),
        images: v.boolean(),
        commit: v.boolean(),
        warm: v.boolean(),
        survivesRestart: v.boolean(),
      }),
    ),
    /** Why a capability is missing, by its name. */
    missing: v.record(v.string(), v.string()),
  }),
);

export const getSandbox = operation({
  ...common,
  method: 'GET',
  id: 'getSandbox',
  path: '/api/v1/sandbox',
  summary: 'What sessions run in: providers with their versions, what each can do, and why not the rest',
  answers: {
    200: named(
      'SandboxEngine',
      v.object({
        /** The daemon that runs sessions with it: the one that answers, where it does. */
        daemon: v.string(),
        providers: v.array(provider),
        fenced: v.boolean(),
        /** What fenced sessions of the installation reach at most; null where no list is given. */
        allow: v.nullable(v.array(v.string())),
      }),
    ),
  },
});

export const listSandboxes = operation({
  ...common,
  method: 'GET',
  id: 'listSandboxes',
  path: '/api/v1/sandboxes',
  summary: 'Sandboxes of all daemons that are reached, also those that no live session owns',
  answers: {
    200: named(
      'SandboxList',
      v.object({
        items: v.array(
          v.object({
            session: v.string(),
            provider: v.nullable(v.string()),
            /** Running: programs run in it; resting: its files wait for its session; left: no live session owns it. */
            state: v.picklist(['running', 'resting', 'left']),
            org: v.nullable(v.string()),
            project: v.nullable(v.string()),
            agent: v.nullable(v.string()),
            sessionState: v.nullable(v.string()),
            image: v.nullable(v.string()),
            daemon: v.string(),
          }),
        ),
        /** Hosts of daemons that run sessions and did not answer, and engines that say nothing any more: `docker on <host>`. */
        unreachable: v.array(v.string()),
      }),
    ),
  },
});

export const reapSandboxes = operation({
  ...common,
  method: 'POST',
  id: 'reapSandboxes',
  path: '/api/v1/sandboxes/reap',
  summary: 'End and remove sandboxes that no live session owns, on all daemons that are reached',
  body: v.strictObject({}),
  answers: {
    200: named('SandboxesReaped', v.object({ reaped: v.array(v.string()), unreachable: v.array(v.string()) })),
  },
});
