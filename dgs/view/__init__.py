"""The page of a run: what happens in the run, as HTML and SVG, live over loopback or as one offline file. Read in this order.

- `moments`: the data shown of a run, at each moment. `shown_figures`, `shown_steps`, `sentences`: make it from the figures of the run.
- `run_reading`: a run as its directory shows it. `pictures`: the drawings. `scenes`: the values of a moment for their slots.
- `page`, `panels`: the whole page. `page_feed`, `server`: the live page. `report_file`: the page or a picture as a file.

Python draws everything once and names the places that change, its *slots*. The script of the page only puts the values of a
scene into the slots, so a page without JavaScript shows the same, and no text of a user is ever read as markup.
"""
