// A project as the rest of the program addresses it.

export interface ProjectRef {
  readonly id: string;
  readonly slug: string;
  readonly orgId: string;
  readonly orgSlug: string;
}
