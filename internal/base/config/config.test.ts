import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { ConfigError, loadConfig } from './config.ts';
import { notificationSettings } from './notification-settings.ts';
import { secretInFile } from './section.ts';
import { checkSections } from './sections.ts';

const dir = mkdtempSync(join(tmpdir(), 'svc-config-'));
let files = 0;
const file = (text: string): string => {
  const path = join(dir, `${files++}.yaml`);
  writeFileSync(path, text);
  return path;
};
/** Each line holds the one before ten times. */
const bomb = `a0: &a0 [x]\n${Array.from({ length: 9 }, (_, at) => `a${at + 1}: &a${at + 1} [${`*a${at},`.repeat(10)}]\n`).join('')}`;
const load = (env: Record<string, string> = {}, argv: string[] = []) =>
  loadConfig({ env: { HOME: '/h', ...env }, argv, cwd: '/w' });

describe('configuration', () => {
  after(() => rmSync(dir, { recursive: true }));

  it('is complete without anything', () => {
    const { secretEnv, ...plain } = load({ A_KEY: 'k' });
    assert.equal(secretEnv?.('A_KEY'), 'k');
    assert.deepEqual(plain, {
      dataDir: '/h/.local/share/svc',
      listen: { host: '127.0.0.1', port: 4400 },
      roles: ['api', 'sync', 'route', 'schedule', 'session'],
      masterKeyFile: '/h/.local/share/svc/master.key',
      sandbox: 'auto',
      allowPrivateNetwork: false,
      logLevel: 'info',
      file: {},
      fileDir: '/w',
    });
  });

  it('follows the XDG rule for the data directory', () => {
    assert.equal(load({ XDG_DATA_HOME: '/x' }).dataDir, '/x/svc');
    assert.equal(load({ XDG_DATA_HOME: 'x' }).dataDir, '/h/.local/share/svc', 'a relative one is invalid there');
    assert.equal(load({ XDG_DATA_HOME: '' }).dataDir, '/h/.local/share/svc');
  });

  it('takes flags over environment over file over default', () => {
    const path = file('listen: 127.0.0.1:3\nlogLevel: debug\nroles: [api, sync]\nallowPrivateNetwork: true\n');
    const all = load({ SVC_CONFIG: path, SVC_LISTEN: '127.0.0.1:2' }, ['--listen', '127.0.0.1:1']);
    assert.equal(all.listen.port, 1);
    assert.equal(load({ SVC_CONFIG: path, SVC_LISTEN: '127.0.0.1:2' }).listen.port, 2);
    const rest = load({ SVC_CONFIG: path, SVC_LOG_LEVEL: '' });
    assert.deepEqual(
      [rest.listen.port, rest.logLevel, rest.roles, rest.allowPrivateNetwork],
      [3, 'debug', ['api', 'sync'], true],
    );
    assert.equal(load({}, [`--config=${path}`]).logLevel, 'debug');
  });

  it('leaves the installation out of a file where the daemon is one that is thrown away', () => {
    const path = file(
      'databaseUrl: postgres://h/d\nmasterKeyFile: k\nbaseUrl: https://svc.example\nlisten: :80\nroles: api\ndataDir: d\n' +
        'logLevel: debug\nnotifications: { receivers: [] }\ncatalog: { presets: [house] }\n',
    );
    const { secretEnv: _, ...plain } = load({ SVC_CONFIG: path, SVC_THROWN_AWAY: '1' });
    const { secretEnv: __, ...alone } = load({ SVC_LOG_LEVEL: 'debug' });
    assert.deepEqual(plain, { ...alone, file: { catalog: { presets: ['house'] } }, fileDir: dir });
  });

  it('keeps what is richer than a string for whoever reads it', () => {
    const path = file('providers: {errtrack: {baseUrl: https://e.example}}\ntemplates: [{scope: "@a"}]\n');
    assert.deepEqual(load({ SVC_CONFIG: path }).file, {
      providers: { errtrack: { baseUrl: 'https://e.example' } },
      templates: [{ scope: '@a' }],
    });
  });

  it('reads each setting in its own form', () => {
    assert.deepEqual(load({ SVC_LISTEN: '[::1]:0' }).listen, { host: '::1', port: 0 });
    assert.deepEqual(load({ SVC_LISTEN: ':80' }).listen, { host: '0.0.0.0', port: 80 });
    assert.equal(load({ SVC_BASE_URL: 'https://svc.example/' }).baseUrl, 'https://svc.example');
    assert.equal(load({ SVC_BASE_URL: 'http://svc.example:80/a/b//' }).baseUrl, 'http://svc.example:80/a/b');
    assert.deepEqual(load({ SVC_HARNESS_A_COMMAND: '["node","a.js"]' }).harnessACommand, ['node', 'a.js']);
    assert.deepEqual(load({ SVC_ROLES: 'session, api' }).roles, ['api', 'session']);
    assert.equal(load({ SVC_DATA_DIR: 'd' }).dataDir, '/w/d');
    const external = load({ SVC_DATABASE_URL: 'postgres://h/d', SVC_MASTER_KEY_FILE: 'k' });
    assert.deepEqual([external.databaseUrl, external.masterKeyFile], ['postgres://h/d', '/w/k']);
  });

  it('takes a section of providers that says nothing yet, and names the one that another stands for', () => {
    assert.deepEqual(load({ SVC_CONFIG: file('providers:\n') }).file, { providers: null });
    assert.deepEqual(load({ SVC_CONFIG: file('providers: {chat: }') }).file, { providers: { chat: null } });
    assert.throws(
      () => load({ SVC_CONFIG: file('providers: {codehots: {}}') }),
      /^ConfigError: providers\.codehots in .* is no setting; did you mean providers\.codehost\?$/,
    );
  });

  it('names the setting that it cannot use, on one line, and repeats no secret', () => {
    const cases: [Record<string, string>, string[], string][] = [
      [{ SVC_LISTEN: '127.0.0.1' }, [], 'SVC_LISTEN'],
      [{ SVC_LISTEN: '127.0.0.1:65536' }, [], 'SVC_LISTEN'],
      [{ SVC_BASE_URL: 'svc.example' }, [], 'SVC_BASE_URL'],
      [{ SVC_BASE_URL: 'https:svc.example' }, [], 'SVC_BASE_URL'],
      [{ SVC_BASE_URL: 'https:///svc' }, [], 'SVC_BASE_URL'],
      [{ SVC_BASE_URL: 'https://svc.example/?a=1' }, [], 'SVC_BASE_URL'],
      [{ SVC_BASE_URL: 'https://svc.example/#a' }, [], 'SVC_BASE_URL'],
      [{ SVC_BASE_URL: 'https://svc.example/a\nb' }, [], 'SVC_BASE_URL'],
      [{ SVC_BASE_URL: 'https://u:hush@svc.example' }, [], 'SVC_BASE_URL'],
      [{ SVC_DATABASE_URL: 'mysql://u:hush@h/d' }, [], 'SVC_DATABASE_URL'],
      [{ SVC_DATABASE_URL: 'hush' }, [], 'SVC_DATABASE_URL'],
      [{ SVC_ROLES: ',' }, [], 'SVC_ROLES'],
      [{ SVC_SANDBOX: 'x' }, [], 'SVC_SANDBOX'],
      [{ SVC_ALLOW_PRIVATE_NETWORK: 'maybe' }, [], 'SVC_ALLOW_PRIVATE_NETWORK'],
      [{ SVC_LOG_LEVEL: 'loud' }, [], 'SVC_LOG_LEVEL'],
      [{ SVC_HARNESS_B_COMMAND: '[]' }, [], 'SVC_HARNESS_B_COMMAND'],
      [{}, ['--listen'], '--listen'],
      [{}, ['--frob', 'x'], '--frob'],
      [{}, ['stray'], 'arguments'],
      [{}, ['--log-level', 'info', '--log-level', 'warn'], '--log-level'],
      [{ SVC_CONFIG: '/nowhere' }, [], 'SVC_CONFIG'],
      [{ SVC_CONFIG: file('a: [') }, [], 'SVC_CONFIG'],
      [{ SVC_CONFIG: file('sandboxes: {network: {allow: [*.example.com, x]}}') }, [], 'SVC_CONFIG'],
      [{ SVC_CONFIG: file(bomb) }, [], 'SVC_CONFIG'],
      [{ SVC_CONFIG: file('colour: red') }, [], 'colour in'],
      [{ SVC_CONFIG: file('providers: {codehots: {}}') }, [], 'providers.codehots in'],
      [{ SVC_CONFIG: file('providers: on') }, [], 'providers in'],
      [{ SVC_CONFIG: file('providers: [chat]') }, [], 'providers.0 in'],
      [{ SVC_CONFIG: file('listen: {a: 1}') }, [], 'listen in'],
      [{ SVC_CONFIG: file('logLevel: loud') }, [], 'logLevel in'],
    ];
    for (const [env, argv, name] of cases) {
      assert.throws(
        () => load(env, argv),
        (error: unknown) =>
          error instanceof ConfigError && error.message.startsWith(name) && !/\n|hush/.test(error.message),
        JSON.stringify([env, argv, name]),
      );
    }
  });

  it('refuses a path in the file that names none, which would be the directory that svcd was started in', () => {
    for (const key of ['dataDir', 'masterKeyFile'])
      assert.throws(
        () => load({ SVC_CONFIG: file(`${key}: ''\n`) }),
        new RegExp(`^ConfigError: ${key} in .* must be a path$`),
      );
  });

  it('says of a file that is no one map of settings what it is', () => {
    for (const [text, message] of [
      ['listen: 127.0.0.1:1\n---\nroles: cook\n', 'holds more than one document'],
      ['- listen: 127.0.0.1:1\n', 'is no map of settings'],
      ['127.0.0.1:1\n', 'is no map of settings'],
      ['roles: all\nroles: api\n', 'is not valid YAML: Map keys must be unique at line 2, column 1'],
    ] as const) {
      const path = file(text);
      assert.throws(() => load({ SVC_CONFIG: path }), new ConfigError('SVC_CONFIG', `names ${path}, which ${message}`));
    }
    for (const text of ['', '# nothing yet\n', '---\n', '--- {}\n', '{}\n...\n', '\uFEFFroles: all\n'])
      assert.equal(load({ SVC_CONFIG: file(text) }).roles.length, 5, JSON.stringify(text));
  });

  it('reads the secret in a file without what an editor writes around it', () => {
    for (const text of ['a key', 'a key\n', 'a key\r\n', '\uFEFFa key', '\uFEFFa key\r\n'])
      assert.equal(secretInFile(file(text)), 'a key', JSON.stringify(text));
    for (const text of ['', '\n', '\uFEFF', '\uFEFF\r\n']) assert.equal(secretInFile(file(text)), undefined);
    const receivers = (secretFile: string) =>
      notificationSettings(
        {
          file: {
            notifications: {
              receivers: [{ name: 'pager', kind: 'webhook', url: 'https://pager.example.com/', secretFile }],
            },
          },
          fileDir: dir,
          allowPrivateNetwork: false,
        },
        [],
      );
    assert.equal(receivers(file('\uFEFFa key\r\n'))[0]?.key, 'a key');
    assert.throws(() => receivers(file('\n')), /notifications\.receivers\.0\.secretFile cannot be read, or is empty/);
  });

  it('refuses a provider of sandboxes without its section, where sessions run', () => {
    const check = (env: Record<string, string>, text = '') => checkSections(load({ ...env, SVC_CONFIG: file(text) }));
    for (const [provider, section] of [
      ['command', 'sessions.command'],
      ['docker', 'sandboxes.docker'],
      ['kubernetes', 'sandboxes.kubernetes'],
    ] as const) {
      const message = `cannot be used: ${provider} needs ${section} in the file of SVC_CONFIG`;
      assert.throws(() => check({ SVC_SANDBOX: provider }), new ConfigError('SVC_SANDBOX', message));
      check({ SVC_SANDBOX: provider, SVC_ROLES: 'api,sync' });
    }
    assert.throws(
      () => check({}, 'sandboxes: {presets: {box: {image: x, provider: docker}}}'),
      /^ConfigError: sandboxes\.presets\.box\.provider cannot be used: docker needs sandboxes\.docker /,
    );
    check({ SVC_SANDBOX: 'command' }, 'sessions: {command: {run: [box, "{id} {home} {work}", "{env-names}"]}}');
  });

  it('refuses templates of an operator’s program that cannot be used, where it is named', () => {
    for (const [command, message] of [
      ['{run: []}', 'sessions.command.run cannot be used: it names no program'],
      ['{run: [box, "{id}"]}', 'sessions.command.run cannot be used: {home} is in none of its arguments'],
      [
        '{run: [box, "{id} {home} {work}", "{env-names}"], remove: [box]}',
        'sessions.command.remove cannot be used: {id} is in none of its arguments',
      ],
    ]) {
      const text = `sessions: {command: ${command}}`;
      const check = (env: Record<string, string>) => checkSections(load({ ...env, SVC_CONFIG: file(text) }));
      assert.throws(
        () => check({ SVC_SANDBOX: 'command' }),
        (error) => error instanceof ConfigError && error.message === message,
      );
      check({});
    }
  });

  it('names the setting of a section that is none, and the one that it stands for', () => {
    const told = (text: string): string => {
      try {
        checkSections(load({ SVC_CONFIG: file(text) }));
      } catch (error) {
        return error instanceof ConfigError ? error.message : String(error);
      }
      return '';
    };
    for (const [text, message] of [
      ['sessions: {maxx: 3}', 'sessions.maxx cannot be used: it is no setting; did you mean sessions.max?'],
      [
        'sessions: {spawn: {dept: 3}}',
        'sessions.spawn.dept cannot be used: it is no setting; did you mean sessions.spawn.depth?',
      ],
      [
        'sandboxes: {presets: {node: {rootsf: /x}}}',
        'sandboxes.presets.node.rootsf cannot be used: it is no setting; did you mean sandboxes.presets.node.rootfs?',
      ],
      [
        'providers: {codehost: {attachmentHosts: ["files.example:99999"]}}',
        'providers.codehost.attachmentHosts.0 cannot be used: host or host:port',
      ],
      [
        'providers: {chat: {fileHosts: ["files.example:0"]}}',
        'providers.chat.fileHosts.0 cannot be used: host or host:port',
      ],
      ['retention: {colours: 3}', 'retention.colours cannot be used: it is no setting'],
      ['sessions: {max: many}', 'sessions.max cannot be used: Invalid type: Expected number but received "many"'],
    ] as const)
      assert.equal(told(text), message);
  });
});
