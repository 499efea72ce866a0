// The types that the modules share, for the type checker alone.

/** What Gradio hands to the script of a component. */
interface GradioElement {
  element: HTMLElement;
  trigger: Trigger;
  props: { value: any };
  watch: (name: string, changed: () => void) => void;
}

/** ``view`` is what sends the event, for who draws the page without a server. */
type Trigger = (event: string, data?: object, view?: Chooser) => void;

interface Chooser {
  chosen: (told: { area?: Corners; group?: string | null; index?: number }) => Set<number> | null;
}

/** The model of a widget: what the notebook and its kernel share. */
interface WidgetModel {
  get: (name: string) => any;
  set: (name: string, value: any) => void;
  save_changes: () => void;
  on: (event: string, listener: (...values: any[]) => void) => void;
  off: (event: string, listener: (...values: any[]) => void) => void;
  send: (content: object) => void;
  widget_manager: { get_model: (id: string) => Promise<{ get: (name: string) => any }> };
}

/** What says the theme of a page. */
interface ThemedElement {
  getAttribute: (name: string) => string | null;
}

// ---- what Python sends: see plot.py ----

interface SentFile {
  url: string;
}

interface RowValue {
  scope: string;
  heading: string;
  subheading: string;
  scale_bars: ScaleBarSpec[];
  columns: number;
  swipe: boolean;
  marked: Record<string, number>;
  selected?: Record<string, string>;
  dark: Record<string, string>;
  panels: PanelSpec[];
  plotly: SentFile;
  files: SentFile[];
}

interface PanelSpec {
  key: string;
  title: string;
  subtitle: string;
  source: string[];
  color: string;
  help: string;
  foot: string;
  message: string;
  tone: string;
  span: number;
  emphasis: string;
  actions: string[];
  numbers: [string, string][];
  legend: { name: string; color: string; note: string; pick?: boolean }[];
  tools?: string[];
  selects?: boolean;
  chips?: NeighbourSpec[];
  scale_bars: ScaleBarSpec[];
  lists: NeighbourListSpec[];
  drawings: DrawingSpec[];
  recipe?: RecipeSpec;
}

interface ScaleBarSpec {
  title: string;
  low: string;
  high: string;
  colors: string[];
}

interface NeighbourListSpec {
  name: string;
  color: string;
  rows: NeighbourSpec[];
}

interface NeighbourSpec {
  id: number;
  label: string;
  value: number;
  shared: boolean;
}

interface DrawingSpec {
  caption: string;
  figure: { data: any[]; layout: any };
  bin: number | null;
}

interface RecipeSpec {
  python: string;
  command: string;
  cite: string;
  local: boolean;
  space?: string; // its name, where the page is one
}

interface PackedArray {
  $bin: number;
  dtype: "f4" | "f8" | "i1" | "i2" | "i4" | "u1" | "u2" | "u4" | "b1";
  shape: [number] | [number, number];
  scale?: number;
  offset?: number;
}

// ---- what is drawn ----

interface Size {
  width: number;
  height: number;
}

interface Spot {
  x: number;
  y: number;
}

/** What a file of a figure says besides the figure, in the colours of the page. */
interface ExportWords {
  source: string;
  title: string;
  bars: ScaleBarSpec[];
  legend: { name: string; color: string }[];
  ink: string;
  subdued: string;
}

/** A figure as it is saved, and what its traces are. */
interface SavedFigure {
  data: any[];
  layout: any;
  traces: TraceInfo[];
}

/** An axis in pixels of the stage, from its start on. */
interface PixelAxis {
  start: number;
  length: number;
  pixel: (value: number) => number;
  value: (pixel: number) => number;
}

/** Corners of a shape in the coordinates of a plot. */
interface Corners {
  x: number[];
  y: number[];
}

/** What drawing a shape needs of a plot. */
interface LassoPlot {
  box: HTMLElement;
  stage: { places: (first: Spot, corners: Spot[]) => Corners | null };
}

interface Patch {
  row: number;
  column: number;
}

interface TraceInfo {
  group: string | null;
  first: number;
  ids: ArrayLike<number> | null;
  places: { get: (row: number) => number | undefined } | null;
  labels: any[] | null;
  escaped: boolean;
  points: number;
  axes: string;
  grid: [number, number] | null;
  tiles: [number[], number[]] | null;
  kept: ArrayLike<number> | null;
  of: number;
  outside: Set<number> | null;
  stub: boolean;
  numbers: ArrayLike<number> | null; // of the points in their own table, where a group has others
  own: boolean;
}

interface Table {
  name: string;
  header: any[];
  rows: number;
  row: (at: number) => unknown[];
}

/** What a drawer shows of a panel. */
interface Sheet {
  name: string;
  className: string;
  build: () => HTMLElement[];
}

/** A panel that can have the whole window. */
interface Presentable {
  node: HTMLElement;
  hasPictures: () => boolean;
  redraw: () => void;
  focus: () => void;
}

/** A plot that gives its WebGL contexts up when it is told so and is hidden. */
interface ContextHolder {
  free(): void;
}

/** What the order of painting needs of a plot. */
interface Paintable {
  box: { getBoundingClientRect: () => DOMRect };
  flat: boolean;
  paint: () => Promise<void>;
}

/** What a plot needs of its panel. */
interface PlotOwner extends Chooser {
  key: string;
  selects: boolean;
  presented: () => boolean;
  node: HTMLElement;
  trigger: Trigger;
  settle: () => void;
  fail: (error: Error) => void;
}

/** The marked row of a group, and the one under the pointer. */
interface Mark {
  marked: number | null;
  hovered: number | null;
}

// ---- plotly ----

interface PlotPoint {
  curveNumber: number;
  pointNumber: any;
  pointIndex?: any;
  x?: any;
  y?: any;
  z?: any;
  data: any;
  xaxis?: any;
  yaxis?: any;
}

interface Place {
  x: number;
  y: number;
  z: number;
}

interface Camera {
  eye: object;
}

interface PlotlyNode extends HTMLElement {
  _fullLayout?: any;
  _fullData?: any[];
  data: any[];
  layout: any;
  on: (event: string, listener: (event: { points: PlotPoint[] }) => void) => void;
}

interface PlotlyLibrary {
  react: (node: HTMLElement, traces: any[], layout: any, config: object) => Promise<unknown>;
  purge: (node: HTMLElement) => void;
  downloadImage: (figure: object, options: object) => Promise<unknown>;
}

// ---- the page of an atlas: see atlas_page.py ----

interface AtlasFigure {
  name: string;
  unit: string;
  about: string;
  values: (number | null)[];
  chance: string[];
}

interface AtlasData {
  names: string[];
  hover: string[];
  sources: string[];
  groups: Record<string, string[]>;
  figures: AtlasFigure[];
  colours: string[][];
  roles: Record<string, string[]>;
  other: string[];
  font: string;
  app: string;
}

interface AtlasView {
  x: number;
  y: number;
  group: string;
  log: { x: boolean; y: boolean };
  dark: boolean;
  chosen: Set<number>;
  shown: (at: number) => boolean;
  click: (at: number) => void;
}

interface Window {
  Plotly?: PlotlyLibrary;
  hfposemb?: any;
}
