"""The page of a run: what happens in it, drawn as HTML and SVG, live over loopback or as one offline file. Read in this order.

- `moments`: what is shown of a run, at each moment. `shown_figures`, `shown_steps`, `sentences`: made of the figures that come from the run.
- `run_reading`: a run as its directory shows it. `pictures`: the drawings. `scenes`: what a moment puts into their slots.
- `page`, `panels`: the whole page. `page_feed`, `server`: the live page. `report_file`: the page or a picture as a file.

Python draws everything once and names the places that change, its *slots*. The script of the page only puts the values of a
scene into the slots, so a page without JavaScript shows the same, and no text of a user is ever read as markup.
"""
