"""The style of the page: light, dark and paper; from phones to wide screens."""

STYLE = """
:root { color-scheme: light dark;
  --page: #fbfbfa; --card: #ffffff; --text: #1c2024; --soft: #5b6570; --edge: #d9dde1; --back: #e9ecef; --code: #f1f3f5;
  --accent: #1f5fa8; --note: #8a4b00;
  --s0: #2f6db3; --s1: #d98200; --s2: #2a8f6b; --s3: #b4458f; --s4: #7a6fd0; --s5: #8c6d3f; --s6: #8b949e; }
@media screen and (prefers-color-scheme: dark) { :root {
  --page: #14171a; --card: #1c2024; --text: #e6e9ec; --soft: #a2acb6; --edge: #363d44; --back: #2b3138; --code: #262b31;
  --accent: #7db3f0; --note: #f0b060;
  --s0: #5b9bdf; --s1: #f0a030; --s2: #45b88d; --s3: #d873b5; --s4: #a39bf0; --s5: #c2a06a; --s6: #9aa4ae; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5
  system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
main, header, footer { max-width: 72rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1.5rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.25rem 0 .25rem; padding-top: .75rem; border-top: 1px solid var(--edge); }
h3 { font-size: 1rem; margin: 0 0 .5rem; }
p { margin: .25rem 0 .75rem; max-width: 48rem; overflow-wrap: anywhere; }
.soft, figcaption, footer { color: var(--soft); }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: .875em; }
code { overflow-wrap: anywhere; unicode-bidi: isolate; }
pre { background: var(--code); border: 1px solid var(--edge); border-radius: .375rem; padding: .5rem .75rem; margin: .25rem 0;
  white-space: pre-wrap; overflow-wrap: anywhere; }
a { color: var(--accent); }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; padding: 0; margin: .75rem 0; list-style: none; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .75rem; margin: 1rem 0; }
dl.facts div { background: var(--card); border: 1px solid var(--edge); border-radius: .5rem; padding: .6rem .8rem; }
dt { color: var(--soft); font-size: .875rem; }
dd { margin: 0; font-size: 1.2rem; font-weight: 600; overflow-wrap: anywhere; }
dd small { display: block; font-size: .8125rem; font-weight: 400; color: var(--soft); }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; align-items: start; }
.three { grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
figure, .advice { margin: 0; background: var(--card); border: 1px solid var(--edge); border-radius: .5rem;
  padding: .9rem 1rem; min-width: 0; }
.advice { margin: 0 0 1rem; border-left: .3rem solid var(--s1); }
.advice.nothing { border-left-color: var(--s2); }
.advice p { max-width: 60rem; }
figcaption { font-size: .875rem; margin-top: .5rem; }
.note { color: var(--note); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .5rem; vertical-align: middle; border-bottom: 1px solid var(--edge); }
tr > :first-child { padding-left: 0; }
tr > :last-child { padding-right: 0; }
tbody tr:last-child > * { border-bottom: 0; }
th { font-weight: 600; }
tbody th { font-weight: 400; }
.number { text-align: right; white-space: nowrap; }
.range { white-space: nowrap; }
.wide { width: 45%; min-width: 5rem; }
.half { width: 22%; min-width: 4rem; }
.meter { display: grid; grid-template-columns: 4.5rem minmax(4rem, 1fr); gap: 0 .75rem; align-items: center; }
.meter span { text-align: right; white-space: nowrap; }
.name { overflow-wrap: anywhere; min-width: 7rem; }
.tag { font-size: .75rem; border: 1px solid var(--edge); border-radius: .75rem; padding: 0 .4rem; color: var(--soft); white-space: nowrap; }
svg { display: block; }
svg.bar { width: 100%; height: .8rem; }
svg.chart { width: 100%; max-width: 36rem; height: auto; }
svg.key { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; vertical-align: -.05rem; }
svg text { font-size: 13px; fill: var(--soft); font-family: inherit; }
.grid path, path.grid { stroke: var(--edge); fill: none; }
path.line { stroke: var(--s0); stroke-width: 2; fill: none; }
path.area { fill: var(--s0); fill-opacity: .15; stroke: none; }
.back { fill: var(--back); }
.s0 { fill: var(--s0); } .s1 { fill: var(--s1); } .s2 { fill: var(--s2); } .s3 { fill: var(--s3); }
.s4 { fill: var(--s4); } .s5 { fill: var(--s5); } .s6 { fill: var(--s6); }
details { margin-top: .5rem; font-size: .9rem; }
summary { cursor: pointer; color: var(--accent); }
footer { margin: 2rem auto; padding-top: .75rem; border-top: 1px solid var(--edge); font-size: .875rem; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
@media (max-width: 40rem) {
  .extra { display: none; }
  .meter { grid-template-columns: 1fr; }
  .meter span { text-align: left; }
  dl.facts { grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); }
  figure, .advice { padding: .75rem; }
  th, td { padding: .2rem .25rem; }
  .wide, .half { width: 25%; min-width: 2.5rem; }
  .name { min-width: 5rem; }
  .range { white-space: normal; }
}
@media print {
  body { background: #fff; font-size: 10.5pt; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  nav { display: none; }
  figure, .advice, dl.facts div, tr { break-inside: avoid; }
  h2, h3, h2 + p { break-after: avoid; }
  .scroll { overflow: visible; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
"""
