// Sections of the SVC_CONFIG file that say how many sessions run, what is kept, how people sign in, and which application the
// service is at the error tracker.

import * as v from 'valibot';
import { choice, described, flag, name, text } from './common.ts';

const optional = <const S extends v.GenericSchema>(schema: S) => v.optional(schema);
const count = (least: number, most: number, description: string) =>
  described(v.pipe(v.number(), v.integer(), v.minValue(least), v.maxValue(most)), description);
const seconds = (least: number, most: number, description: string) =>
  described(v.pipe(v.number(), v.minValue(least), v.maxValue(most)), description);
const mebibyte = 1_048_576;
const days = 36_500;

export const sessions = v.strictObject({
  max: optional(count(0, 10_000, 'Places of one daemon: sessions whose harness runs; 200.')),
  perProject: optional(count(1, 10_000, 'Places of one project, over all daemons; default any number.')),
  unloadAfterSeconds: optional(seconds(0, 86_400, 'So long a session rests before its place may be asked back; 60.')),
  turnSeconds: optional(seconds(1, 604_800, 'A turn that takes longer is ended; 3600.')),
  spawn: optional(
    described(
      v.strictObject({
        depth: optional(count(0, 1_000, 'How deep below the first session; 8.')),
        live: optional(count(0, 100_000, 'How many that live; 100.')),
        perMinute: optional(count(0, 100_000, 'How many within a minute; 60.')),
      }),
      'What one session may spawn.',
    ),
  ),
  fenced: optional(flag('No network but model, tools and edge, where the sandbox can be without; false.')),
  pushMaxBytes: optional(count(1, 64 * 1024 ** 3, 'Bytes of one push out of a mount; 268435456.')),
  messageMaxBytes: optional(
    count(
      256,
      mebibyte,
      'Bytes of a message to a session, what is rendered beyond is cut; 1048576, which is the most.',
    ),
  ),
  command: optional(
    described(
      v.strictObject({
        run: described(v.array(v.string()), 'Starts a program in a sandbox.'),
        remove: optional(described(v.array(v.string()), 'Ends what it may have left.')),
      }),
      'The program of `sandbox: command`.',
    ),
  ),
});

export const retention = v.strictObject({
  eventsDays: optional(count(1, days, 'Routed events with their bodies; 30.')),
  sessionsDays: optional(count(1, days, 'Ended sessions with their transcripts, and concluded checks; 90.')),
  reconcilesDays: optional(count(1, days, 'Runs of repositories, and revisions of agents; 90.')),
  usageDays: optional(count(62, days, 'Calls of models in the ledger, and its sums by day; 400.')),
});

export const audit = v.strictObject({
  retentionDays: optional(count(1, days, 'Days that an entry is kept; default for ever.')),
});

const client = {
  clientId: text(500, 'The client that the service is there.'),
  clientSecretFile: optional(text(4096, 'File that holds its secret.')),
  clientSecretRef: optional(name('Secret of the first organization that holds it.')),
};
const named = (what: string) =>
  described(v.pipe(v.string(), v.regex(/^[a-z0-9][a-z0-9-]{0,31}$/)), `${what} 1 to 32 of a-z, 0-9 and -`);

export const signIn = v.strictObject({
  oidc: optional(
    described(
      v.pipe(
        v.array(
          v.strictObject({
            name: named('As in its address.'),
            label: optional(text(100, 'On its button.')),
            issuer: text(4096, 'Its https address; http on loopback only.'),
            ...client,
            scopes: optional(described(v.array(v.string()), 'What is asked for: openid, profile, email.')),
            groupsClaim: optional(text(4096, 'Where its groups stand: groups.')),
          }),
        ),
        v.maxLength(20),
      ),
      'Providers of OpenID Connect: `name`, `label`, `issuer`, `clientId`, `clientSecretFile` or `clientSecretRef`, `scopes`, `groupsClaim`.',
    ),
  ),
  github: optional(
    described(
      v.strictObject({
        baseUrl: optional(text(4096, 'Where it asks a person: https://github.com.')),
        apiUrl: optional(text(4096, 'Where its API answers: https://api.github.com.')),
        ...client,
        allowOrgs: optional(
          described(v.pipe(v.array(v.string()), v.minLength(1)), 'Whose members may sign in: anybody.'),
        ),
      }),
      'Sign-in at the code host.',
    ),
  ),
  roles: optional(
    described(
      v.array(
        v.strictObject({
          group: text(500, 'As the provider calls it.'),
          org: text(4096, 'Organization.'),
          project: optional(text(4096, 'Project; absent: the organization.')),
          role: choice(['admin', 'member', 'operator', 'viewer'], 'What it gives.'),
        }),
      ),
      'Which role a group gives: `group`, `org`, `project`, `role`.',
    ),
  ),
  tokens: optional(flag('Whether API tokens sign in; that of the data directory always does; true.')),
  sessions: optional(
    described(
      v.strictObject({
        idleSeconds: optional(count(1, 7_200, 'Seconds without a request; 7200, which is the most.')),
        absoluteSeconds: optional(count(1, 43_200, 'Seconds in all; 43200, which is the most.')),
      }),
      'How long a browser stays signed in.',
    ),
  ),
});

export const errtrack = v.strictObject({
  baseUrl: optional(text(4096, 'Where a person consents: https://sentry.io.')),
  regions: optional(
    described(
      v.strictObject({
        us: optional(text(4096, 'https://us.sentry.io.')),
        de: optional(text(4096, 'https://de.sentry.io.')),
      }),
      'Where its API answers, by region.',
    ),
  ),
  mcpUrl: optional(text(4096, 'Its tool server: https://mcp.sentry.dev/mcp.')),
  clientId: optional(text(500, 'The client that the service is there.')),
  clientSecretFile: optional(text(4096, 'File that holds its secret.')),
  clientSecretRef: optional(name('Secret of the organization that holds it.')),
  appSlug: optional(
    described(v.pipe(v.string(), v.regex(/^[a-z0-9][a-z0-9-]{0,63}$/)), 'The slug of the application there.'),
  ),
});
