// The SVC_CONFIG file (docs/reference/configuration.md#settings): the settings of the environment, and what is richer than a text.

import * as v from 'valibot';
import { conditionsList } from '../internal/domain/notification.ts';
import { effortNames, harnessNames, providers } from '../internal/domain/spec.ts';
import { choice, described, flag, name, text } from './common.ts';
import { audit, errtrack, retention, sessions, signIn } from './config-service.ts';

const command = v.pipe(v.array(v.string()), v.minLength(1));
const ids = v.array(text(256, 'Model id.'));
const plain = (description: string) => described(v.string(), description);
const optional = <const S extends v.GenericSchema>(schema: S) => v.optional(schema);
/** One optional field for each word of a list. */
const each = <const K extends readonly string[], const S extends v.GenericSchema>(keys: K, schema: S) =>
  v.strictObject(v.entriesFromList(keys, v.optional(schema)));

const catalog = v.strictObject({
  presets: optional(described(v.array(name('Preset.')), 'Environment presets beside base and node24.')),
  models: optional(
    each(
      providers,
      v.strictObject({
        replace: optional(flag('True: these alone, the shipped ones are forgotten.')),
        ids: optional(ids),
        pattern: optional(text(1024, 'Regular expression of further ids.')),
      }),
    ),
  ),
  harnesses: optional(
    each(
      harnessNames,
      v.strictObject({
        defaultProvider: optional(v.picklist(providers)),
        defaultModel: optional(text(256, 'Model id.')),
        defaultEffort: optional(v.picklist(effortNames)),
      }),
    ),
  ),
  efforts: optional(each(providers, v.record(v.string(), v.pipe(v.array(v.picklist(effortNames)), v.minLength(1))))),
  codehostTools: optional(
    v.record(
      v.string(),
      v.strictObject({ default: optional(v.literal(true)), needs: optional(v.picklist(['merge', 'secrets'])) }),
    ),
  ),
});

const scope = text(128, 'Scope of the templates: @acme.');
const templates = v.array(
  v.union([
    v.strictObject({ scope, directory: text(4096, 'Directory with one folder for each package.') }),
    v.strictObject({
      scope,
      registry: text(4096, 'Base URL of an npm registry, without credentials.'),
      tokenSecretRef: optional(name('Secret that holds the token.')),
    }),
  ]),
);

const dollars = text(24, 'US dollars for a million tokens, as a decimal string.');
const rates = {
  input: dollars,
  output: dollars,
  cacheRead: dollars,
  cacheWrite: dollars,
  cacheWriteLong: optional(dollars),
};
const modelProvider = v.strictObject({
  baseUrl: optional(text(4096, "Replaces the provider's own address.")),
  keyFile: optional(text(4096, 'File that holds the key.')),
  keyEnv: optional(text(256, 'Environment variable that holds the key.')),
  keySecretRef: optional(name("Secret of the session's project or organization that holds the key.")),
});
const model = v.strictObject({
  ...v.entriesFromList(providers, v.optional(modelProvider)),
  prices: optional(
    v.array(
      v.strictObject({
        provider: choice(providers, 'Whose price it is.'),
        model: text(256, 'A model id; with a * at its end, every id that starts so.'),
        from: text(10, 'First UTC day of the price, YYYY-MM-DD.'),
        ...rates,
        webSearch: optional(text(24, "US dollars for a thousand of the provider's own searches.")),
        above: optional(v.strictObject({ tokens: v.pipe(v.number(), v.integer(), v.minValue(1)), ...rates })),
      }),
    ),
  ),
});

const count = (least: number, most: number, description: string) =>
  described(v.pipe(v.number(), v.integer(), v.minValue(least), v.maxValue(most)), description);
const codehost = v.strictObject({
  apiUrl: optional(text(4096, 'Where its API answers: https://api.github.com.')),
  webUrl: optional(text(4096, 'Where its repositories are: https://github.com.')),
  mcpUrl: optional(text(4096, "The provider's own tool server.")),
  attachmentHosts: optional(
    described(
      v.array(text(260, 'host, or host:port.')),
      'Hosts from which attachments are downloaded: github.com, private-user-images.githubusercontent.com, user-images.githubusercontent.com; a list replaces them.',
    ),
  ),
  writeSpacingMs: optional(count(0, 60_000, 'Writes to one installation go out so far apart: 1000.')),
});
const chat = v.strictObject({
  apiUrl: optional(text(4096, 'Below which its methods are: https://slack.com/api.')),
  fileHosts: optional(described(v.array(text(260, 'host, or host:port.')), 'Hosts of its files: files.slack.com.')),
});
const tracker = v.strictObject({
  apiUrl: optional(text(4096, 'Beside which its /graphql is: https://api.linear.app.')),
});
const oauthProvider = v.strictObject({
  issuer: optional(text(4096, 'Its authorization server, which tells its endpoints itself.')),
  authorizationEndpoint: optional(text(4096, 'Where it asks a person, for a server that tells nothing of itself.')),
  tokenEndpoint: optional(text(4096, 'Where it gives tokens; goes with authorizationEndpoint.')),
  revocationEndpoint: optional(text(4096, 'Where it takes tokens back.')),
  clientId: described(v.string(), 'The client that the service is there.'),
  clientSecretRef: optional(text(128, 'The secret that holds what proves the client.')),
  scopes: optional(described(v.array(v.string()), 'What is asked for: nothing.')),
  resource: optional(text(4096, 'The resource that tokens are for.')),
  mcpUrl: optional(text(4096, 'Its tool server, for `connection` tools that name it.')),
});
const receiver = {
  name: name('By which it is known.'),
  conditions: optional(described(v.array(v.picklist(conditionsList)), 'What it is told of; absent: everything.')),
};
const notifications = v.strictObject({
  receivers: optional(
    v.array(
      v.variant('kind', [
        v.strictObject({
          ...receiver,
          kind: described(v.literal('chat'), 'A channel of a chat provider.'),
          project: text(127, 'organization/project, whose connection it is.'),
          connection: name('A chat connection of that project.'),
          channel: text(200, 'Id of the channel.'),
        }),
        v.strictObject({
          ...receiver,
          kind: described(v.literal('webhook'), 'A POST of JSON.'),
          url: text(4096, 'Where it is sent.'),
          secretFile: optional(text(4096, 'File that holds the key that it is signed with.')),
        }),
      ]),
    ),
  ),
});
const sync = v.strictObject({
  resyncSeconds: optional(count(10, 86_400, 'How often a repository is compared as a whole with what is stored; 600.')),
});
const sources = v.strictObject({
  folders: optional(
    described(
      v.array(text(4096, 'An absolute path.')),
      'Roots below which folders may be watched; without it any, for administrators of the first organization alone.',
    ),
  ),
  readSeconds: optional(count(1, 3_600, 'One read of a source has so many seconds in all: 60.')),
});

const sandboxes = v.strictObject({
  presets: optional(
    v.record(
      v.string(),
      v.strictObject({
        provider: optional(
          choice(
            ['bubblewrap', 'process', 'command', 'docker', 'kubernetes'],
            'Where its sessions run; default SVC_SANDBOX.',
          ),
        ),
        image: optional(text(512, 'Image of a container engine.')),
        rootfs: optional(text(4096, 'Directory with a root file system, for bubblewrap.')),
        harnesses: optional(each(harnessNames, command)),
        limits: optional(
          v.strictObject({
            cpuCount: optional(count(1, Number.MAX_SAFE_INTEGER, 'Processors at most.')),
            memoryMB: optional(count(128, Number.MAX_SAFE_INTEGER, 'Megabytes at most.')),
          }),
        ),
      }),
    ),
  ),
  docker: optional(
    described(
      v.strictObject({
        socket: optional(text(4096, 'Unix socket of the engine: /var/run/docker.sock, /run/podman/podman.sock.')),
        host: optional(text(260, 'host:port of the engine; without tls only on loopback.')),
        tls: optional(
          v.strictObject({
            ca: text(4096, 'File with the certificates that the engine is checked against.'),
            cert: text(4096, 'File with the certificate of the service.'),
            key: text(4096, 'File with its key.'),
          }),
        ),
        runtime: optional(text(255, "A runtime of the engine's, such as runsc; default its own.")),
        fence: optional(choice(['preferred', 'required'], 'required: no launch where the fence leaks; preferred.')),
      }),
      'Docker or Podman, over its API.',
    ),
  ),
  kubernetes: optional(
    described(
      v.strictObject({
        kubeconfig: optional(text(4096, 'File whose current context is used; one with an exec plugin is refused.')),
        inCluster: optional(flag('In place of a kubeconfig: as the pod that the daemon is.')),
        namespace: text(63, 'Where the pods of sessions are made.'),
        runtimeClass: optional(text(63, "A runtime class of the cluster, such as gvisor; default the cluster's own.")),
        wire: optional(
          choice(
            ['exec', 'dial'],
            'exec: a stream through the API server for each pod; dial, for large clusters: pods come to the daemon; exec.',
          ),
        ),
        dial: optional(
          described(
            v.strictObject({
              listen: optional(text(262, 'host:port of the wires of pods, and of nothing else: 0.0.0.0:4410.')),
              address: optional(
                text(
                  262,
                  'host:port at which pods reach it; in the cluster the address of the pod, else it must be given.',
                ),
              ),
            }),
            'Where pods find this daemon, with wire: dial.',
          ),
        ),
        warmPools: optional(v.record(v.string(), text(63, 'Pool of agent-sandbox, by the preset that it serves.'))),
        fence: optional(choice(['preferred', 'required'], 'required: no launch where the fence leaks; preferred.')),
      }),
      'A cluster, whose pods sessions run in.',
    ),
  ),
  snapshots: optional(
    described(
      v.strictObject({
        maxMB: optional(count(0, 10_240, 'Megabytes of one, packed; 0: none are kept; 256.')),
        days: optional(count(1, 3_650, 'Days that one is kept; 14.')),
      }),
      'Home and work of sessions that are not loaded, kept in the database for another daemon.',
    ),
  ),
  lostSeconds: optional(
    count(3, 60, 'Seconds of silence after which a box ends itself and its session is launched again; 60.'),
  ),
  mirrors: optional(
    described(
      v.strictObject({
        maxGB: optional(count(0, 10_240, 'Gigabytes of all; the longest unused go first; 0: none are kept; 20.')),
        days: optional(count(1, 3_650, 'Days that one is kept after its last use; 14.')),
      }),
      'Large mounted repositories, kept under the data directory so that the next session fetches what has changed.',
    ),
  ),
  setupCache: optional(
    described(
      v.strictObject({
        directory: optional(text(4096, 'One that all daemons see.')),
        s3: optional(
          v.strictObject({
            endpoint: text(
              4096,
              '`https://host[:port]` of a store that speaks the API of S3; buckets are named in the path.',
            ),
            bucket: text(63, 'The bucket.'),
            region: optional(text(64, 'us-east-1.')),
            prefix: optional(text(256, 'In front of the name of every object.')),
            accessKeyIdEnv: optional(text(256, 'Variable with the key’s id; AWS_ACCESS_KEY_ID.')),
            secretAccessKeyEnv: optional(text(256, 'Variable with the secret key; AWS_SECRET_ACCESS_KEY.')),
            sessionTokenEnv: optional(text(256, 'Variable with the token of temporary keys; AWS_SESSION_TOKEN.')),
            secretAccessKeyFile: optional(text(4096, 'File with the secret key, in place of the variable.')),
          }),
        ),
        maxEntryMB: optional(count(1, 4_096, 'Megabytes of one archive; 2048.')),
        maxGB: optional(count(1, 102_400, 'Gigabytes of all that is shared; the longest unused go first; 50.')),
      }),
      'Where daemons share what setup steps left, sealed by the master key: a directory or a store; absent: each keeps its own.',
    ),
  ),
  gitBaseUrl: optional(text(4096, 'Where mounts without a connection are cloned from; default the code host.')),
  network: optional(
    v.strictObject({
      allow: described(
        v.array(text(260, 'host, *.domain, either with :port, or a list such as @npm.')),
        'What sessions reach; with it they are fenced from the rest.',
      ),
    }),
  ),
});

export const config = v.pipe(
  v.strictObject({
    dataDir: optional(plain('Embedded database, repository cache, generated keys, sandboxes.')),
    databaseUrl: optional(plain('Any PostgreSQL 15 or later; embedded where absent.')),
    databaseDirectUrl: optional(
      plain('The server itself, where databaseUrl leads to a transaction-mode pooler: for LISTEN and migrations.'),
    ),
    listen: optional(plain('Address and port; port 0 picks a free one.')),
    baseUrl: optional(plain('Public base address used in every URL handed out.')),
    roles: optional(
      described(v.union([v.string(), v.array(v.string())]), 'all, or of api, sync, route, schedule, session.'),
    ),
    masterKeyFile: optional(plain('Key-encryption keys, one version:base64 a line, the last one current.')),
    harnessACommand: optional(described(command, 'The program that speaks the Agent Client Protocol for harness-a.')),
    harnessBCommand: optional(described(command, 'The program that speaks the Agent Client Protocol for harness-b.')),
    sandbox: optional(
      choice(
        ['auto', 'bubblewrap', 'process', 'command', 'docker', 'kubernetes'],
        'auto is bubblewrap where it works.',
      ),
    ),
    allowPrivateNetwork: optional(flag('Lets outbound requests reach loopback and private addresses.')),
    logLevel: optional(plain('A level of the log: info.')),
    catalog: optional(described(catalog, 'Presets, model lists and tools beside those that ship.')),
    templates: optional(described(templates, 'Where managed templates come from, one source for each scope.')),
    notifications: optional(described(notifications, 'Whom the installation tells of what happens in its projects.')),
    sync: optional(described(sync, 'How the reconciler keeps time.')),
    sources: optional(described(sources, 'What may be read, and for how long.')),
    sessions: optional(described(sessions, 'How many sessions run, for how long, and what they may do.')),
    sandboxes: optional(
      described(sandboxes, 'Where sessions run: presets of environments, and what their network reaches.'),
    ),
    providers: optional(
      described(
        v.strictObject({
          model: optional(described(model, 'Model providers, their keys and prices.')),
          codehost: optional(described(codehost, 'The code host, for connections that do not say it themselves.')),
          chat: optional(described(chat, 'The chat provider, for connections that do not say it themselves.')),
          tracker: optional(described(tracker, 'The tracker, for connections that do not say it themselves.')),
          errtrack: optional(described(errtrack, 'The error tracker, and the application that the service is there.')),
          oauth: optional(
            described(v.record(v.string(), oauthProvider), 'Providers that are connected by consent, by their names.'),
          ),
        }),
        'Provider applications, by provider.',
      ),
    ),
    retention: optional(described(retention, 'How long what has happened is kept.')),
    audit: optional(described(audit, 'How long entries of the audit are kept.')),
    signIn: optional(described(signIn, 'Which providers say who a person is, and what their groups give.')),
  }),
  v.title('Configuration'),
  v.description('The file that SVC_CONFIG names.'),
);
