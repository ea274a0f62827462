// What is read of the objects of Kubernetes: of pods, of lists and watches, of the claims of agent-sandbox. Everything may
// be missing: an API server that is newer or older than we know leaves fields out.

export interface Meta {
  readonly name?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly labels?: { readonly [key: string]: string };
  readonly annotations?: { readonly [key: string]: string };
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
}
export interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
}
export interface ContainerState {
  readonly waiting?: { readonly reason?: string; readonly message?: string };
  readonly running?: object;
  readonly terminated?: { readonly exitCode?: number; readonly reason?: string; readonly message?: string };
}
export interface Container {
  readonly name?: string;
  readonly image?: string;
  readonly resources?: { readonly limits?: { readonly [name: string]: string } };
  readonly volumeMounts?: readonly { readonly mountPath?: string; readonly readOnly?: boolean }[];
}
export interface Pod {
  readonly metadata?: Meta;
  readonly spec?: {
    readonly nodeName?: string;
    readonly runtimeClassName?: string;
    readonly containers?: readonly Container[];
  };
  readonly status?: {
    readonly phase?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly conditions?: readonly Condition[];
    readonly containerStatuses?: readonly {
      readonly name?: string;
      readonly imageID?: string;
      readonly state?: ContainerState;
    }[];
  };
}
export interface Claim {
  readonly metadata?: Meta;
  readonly status?: { readonly conditions?: readonly Condition[]; readonly sandbox?: { readonly name?: string } };
}
export interface List<T> {
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string };
  readonly items?: readonly T[];
}
