// The types that the modules of the static page share, for the type checker alone.

/** What site.py writes into the page: limits, endings and architectures, from the Python package. */
interface SiteRules {
  endpoint: string;
  hosts: string[];
  domains: string[];
  limits: Record<string, number>;
  magic: [string, string][];
  bits: Record<string, number>;
  plain: string[];
  token_endings: string[];
  loose_token_endings: string[];
  whole_token_names: string[];
  numbered: string;
  numbered_token: string;
  no_tokens: string;
  position_ending: string;
  no_positions: string;
  heads: string[];
  towers: [string, string[]][];
  short: Record<string, string>;
  whole: string[];
  axes: Record<string, string>;
  part_order: Record<string, number>;
  relative_endings: string[];
  convolution: string;
  rotary_fields: string[];
  untied: string[];
  ties: { types: Record<string, string>; classes: Record<string, string> };
  joined: Record<string, "encoder" | "decoder">;
  rotary_defaults: Record<string, { rope_theta?: number; partial_rotary_factor?: number; partial: boolean }>;
  kind_defaults: Record<string, Record<string, any>>;
  rotary_types: string[];
  decoders: Record<string, string>;
  switches: string[];
  own_switches: Record<string, string[]>;
  families: FamilyRule[];
  family: FamilyRule;
}

interface FamilyRule {
  model_types: string[];
  kind: string;
  counts_padding: boolean;
  padding: number | null;
  leading: number | null;
  waves: string;
  first: number;
  waves_scaled: boolean;
}

// ---- files ----

interface HubAnswer {
  response: Response;
  status: number;
  headers: Headers;
  address: string;
  abort: () => void;
}

interface Traffic {
  requests: number;
  bytes: number;
}

/** The files of a model, on the Hub or on this machine. */
interface ModelFiles {
  listing: Map<string, { size: number; oid: string }>;
  commit: string;
  traffic: Traffic;
  signal: AbortSignal;
  open: () => Promise<void>;
  size: (name: string) => number;
  whole: (name: string, limit: number, progress?: (done: number) => void) => Promise<Uint8Array<ArrayBuffer>>;
  range: (name: string, start: number, stop: number, progress?: (done: number) => void) => Promise<Uint8Array<ArrayBuffer>>;
}

interface TensorPlace {
  name: string;
  dtype: string;
  shape: number[];
  start: number;
  stop: number;
  file: string;
}

interface Header {
  tensors: Map<string, TensorPlace>;
  metadata: Map<string, string>;
  fileBytes: number;
}

interface TableName {
  name: string;
  part: string;
}

/** Rows of a table as they are stored. */
interface StoredRows {
  raw: Uint8Array<ArrayBuffer>;
  dtype: string;
  rows: number;
  width: number;
}

interface TokenStyle {
  isByteLevel: boolean;
  space: string;
  prefix: string;
  suffix: string;
}

// ---- what the worker answers ----

type Told = (share: number, stage: string) => Promise<void>;

type SourceSpec =
  | { kind: "hub"; repo: string; revision: string }
  | { kind: "files"; files: File[] }
  | { kind: "sinusoid"; rows: number; width: number };

interface WorkerCall {
  id: number;
  source: number;
  method: string;
  spec?: SourceSpec;
  rules?: SiteRules;
  args: unknown[];
}

interface SineForm {
  rows: number;
  width: number;
  layout: string;
  first: number;
  scale: number;
}

interface PositionKind {
  kind: string;
  text: string;
  form?: SineForm;
  wavelengths?: number[];
  base?: number;
  longest?: number | null;
}

interface PositionTable {
  part: string;
  info?: TensorPlace;
  form?: SineForm;
  offset: number;
  rows: number;
}

interface ModelFacts {
  commit: string;
  kind: PositionKind | null;
  notes: string[];
  type: string;
  tensors: number;
  fileBytes: number;
  positions: string[];
  token: { tensor: string; dtype: string; bytes: number; rows: number; width: number } | null;
  noToken: string;
  vocabulary: { file: string; bytes: number } | null;
}

interface PositionNumbers {
  whole: number;
  tensor: string;
  dtype?: string;
  offset: number;
  rows: number;
  width: number;
  kept: Int32Array;
  coordinates: Float32Array[];
  shares: number[];
  cells: Float32Array;
  side: number;
  step: number;
  norms: Float64Array;
  byDistance: Float64Array;
}

interface WordNumbers {
  rows: number[];
  labels: string[];
  cells: Float32Array;
  norms: number[];
}

interface NeighbourNumbers {
  row: number;
  label: string;
  found: { row: number; value: number; label: string }[];
}

// ---- the page ----

interface CallProgress {
  share: number;
  stage: string;
  traffic: Traffic;
}

interface PendingCall {
  resolve: (result: any) => void;
  reject: (error: Error) => void;
  progress: (told: CallProgress) => void;
}

interface WorkerAnswer {
  id: number;
  share?: number;
  stage?: string;
  traffic?: Traffic;
  error?: string;
  result?: any;
}

/** Colours of the package, and their partners on a dark page. */
interface SiteColours {
  ink: string;
  subdued: string;
  faint: string;
  panel: string;
  position: string[];
  similarity: string[];
  sources: { color: string; dash: string }[];
  dark: Record<string, string>;
}
