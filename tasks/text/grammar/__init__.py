"""The project's own corpus: stories and encyclopedia-like articles written by a generative grammar.

`stories.story(seed, index)` and `articles.article(seed, index)` are pure functions of two integers.
Their words and rules lie beside them in YAML files and are this project's own; there is nothing to
download. The text of every (seed, index) is fixed: a change of any rule is a new corpus.
"""
