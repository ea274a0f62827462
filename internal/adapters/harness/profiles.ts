// What each harness needs to be told, as data: the public adapter's package at its pinned version, its environment, what
// goes beside `session/new`, and the calls after it. Two descriptions of the same protocol, not two drivers. The values
// were proved against the real programs at these versions; `make test-harness` proves them again.

import { join } from 'node:path/posix';
import type { Harness } from '../../domain/spec.ts';
import type { LaunchInput, LaunchPlan, SetupCall } from './types.ts';

interface AdapterPackage {
  readonly name: string;
  /** Exact: adapters are released several times a week, and their private extension is a contract of one version. */
  readonly version: string;
  /** Inside the package. */
  readonly entry: string;
  /** The package beside it whose optional dependencies are the program itself, one for each platform. */
  readonly engine: string;
}

interface HarnessProfile {
  readonly adapter: AdapterPackage;
  plan(
    input: LaunchInput,
  ): Omit<LaunchPlan, 'harness' | 'clientMeta' | 'secrets' | 'toolsAuthorization'> &
    Partial<Pick<LaunchPlan, 'clientMeta' | 'toolsAuthorization'>>;
}

/** Opens nothing anywhere: the gateway puts the provider's key in. */
const noKey = 'svc-gateway';
const modelKey = 'SVC_MODEL_KEY';
const toolsToken = 'SVC_TOOLS_TOKEN';
const failureExtension = { jetbrains: { air: { version: 1, capabilities: ['sessionFailure'] } } };

const bypassMode = (modeId: string): SetupCall => ({ method: 'session/set_mode', params: { modeId }, required: false });

const harnessA: HarnessProfile = {
  adapter: {
    name: '@agentclientprotocol/claude-agent-acp',
    version: '0.100.0',
    entry: 'dist/index.js',
    engine: '@anthropic-ai/claude-agent-sdk',
  },
  plan: (input) => {
    const configDir = join(input.home, '.claude');
    const append = input.systemPrompt === undefined ? {} : { systemPrompt: { append: input.systemPrompt } };
    return {
      env: {
        HOME: input.home,
        CLAUDE_CONFIG_DIR: configDir,
        NO_BROWSER: '1',
        ANTHROPIC_BASE_URL: input.model.baseUrl,
        ANTHROPIC_API_KEY: noKey,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION: 'false',
        // Retrying is the gateway's and the inbox's; a turn that fails says so at once.
        CLAUDE_CODE_MAX_RETRIES: '1',
        DISABLE_AUTOUPDATER: '1',
        // Otherwise MCP tools hide behind a search tool.
        ENABLE_TOOL_SEARCH: 'false',
        // The program refuses to skip its questions as root unless it is told that it stands in a sandbox. Without it
        // the questions come to us and are allowed here.
        ...(input.asRoot && input.isolated && { IS_SANDBOX: '1' }),
        ...(input.installed && { [toolsToken]: input.toolsToken }),
      },
      // Its tool servers become arguments of the program, which everybody on the machine may read; it puts variables in.
      ...(input.installed && { toolsAuthorization: `Bearer \${${toolsToken}}` }),
      directories: [configDir],
      sessionMeta: { ...append, claudeCode: { options: { model: input.model.id, effort: input.effort } } },
      afterOpen: [bypassMode('bypassPermissions')],
      // `approvals: prompt` changes nothing under harness-a: what it asks is answered with yes.
      autoApprove: true,
    };
  },
};

const harnessB: HarnessProfile = {
  adapter: {
    name: '@agentclientprotocol/codex-acp',
    version: '2.6.0',
    entry: 'dist/index.js',
    engine: '@openai/codex',
  },
  plan: (input) => {
    const configDir = join(input.home, '.codex');
    const config = {
      model: input.model.id,
      model_provider: 'svc',
      model_reasoning_effort: input.effort,
      ...(input.systemPrompt !== undefined && { developer_instructions: input.systemPrompt }),
      model_providers: {
        svc: {
          name: 'svc',
          base_url: `${(input.model.keyed ?? input.model).baseUrl}/v1`,
          wire_api: 'responses',
          env_key: modelKey,
          request_max_retries: 2,
          stream_max_retries: 2,
          supports_websockets: false,
        },
      },
      analytics: { enabled: false },
      check_for_update_on_startup: false,
    };
    return {
      env: {
        HOME: input.home,
        CODEX_HOME: configDir,
        // For the adapter alone, which keeps it in a file.
        CODEX_API_KEY: noKey,
        // Becomes arguments of the program, which everybody on the machine may read.
        CODEX_CONFIG: JSON.stringify(config),
        [modelKey]: input.model.keyed?.key ?? noKey,
        CODEX_ACP_PROMPT_SUGGESTIONS: 'false',
        // Its middle mode asks a model instead of a person, which is not what `prompt` means.
        INITIAL_AGENT_MODE: input.approvals === 'bypass' ? 'agent-full-access' : 'workspace-write',
        MODEL_PROVIDER: 'svc',
        NO_BROWSER: '1',
      },
      directories: [configDir],
      // Without it the one that is told of failures is told nothing of what a command wrote.
      clientMeta: { ...failureExtension, terminal_output_delta: true },
      sessionMeta: {},
      // A title given before the first prompt keeps it from asking another model for one.
      afterOpen: [
        { method: 'session/set_title', params: { title: 'svc' }, capability: 'title', newOnly: true, required: false },
      ],
      autoApprove: input.approvals === 'bypass',
    };
  },
};

const profiles: { readonly [harness in Harness]: HarnessProfile } = { 'harness-a': harnessA, 'harness-b': harnessB };

/** The public adapter that `svc harness install` brings for a harness. */
export const adapterOf = (harness: Harness): AdapterPackage => profiles[harness].adapter;

/**
 * What to start a harness with and what to tell it. Pure. The effort is always sent: left out, a harness takes its
 * model's own default, which is not the spec's.
 */
export function planLaunch(input: LaunchInput): LaunchPlan {
  const plan = profiles[input.harness].plan(input);
  return {
    harness: input.harness,
    clientMeta: failureExtension,
    // The address carries the session's token.
    secrets: [
      input.toolsToken,
      input.model.baseUrl,
      ...(input.model.keyed === undefined ? [] : [input.model.keyed.key]),
    ],
    toolsAuthorization: `Bearer ${input.toolsToken}`,
    ...plan,
  };
}
