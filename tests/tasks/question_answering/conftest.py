"""Questions on a little document, and their files."""

from electra_tf.tasks.question_answering import records

CONTEXT = "The old cat (1895-18). The cats sat on  the mat."


def example_of(
    text: str | None = "cats",
    context: str = CONTEXT,
    start: int | None = None,
    question: str = "who sat",
    name: str = "q1",
) -> records.Example:
    """A question whose answer is the text's first occurrence, or at `start`."""
    if text is None:
        return records.Example(name, question, context, (), None, True)
    place = context.index(text) if start is None else start
    return records.Example(
        name, question, context, (text,), records.Answer(text, place)
    )


def squad_file(questions: list, context: str = CONTEXT) -> dict:
    """The content of a SQuAD file with one paragraph."""
    paragraph = {"context": context, "qas": questions}
    return {"version": "x", "data": [{"title": "t", "paragraphs": [paragraph]}]}


def squad_question(text: str | None = "cats", **fields: object) -> dict:
    """A question of a SQuAD file; without a text an unanswerable one."""
    answers = []
    if text is not None:
        answers = [{"text": text, "answer_start": CONTEXT.index(text)}]
    return {
        "id": "q1",
        "question": "who sat",
        "answers": answers,
        "is_impossible": text is None,
    } | fields
