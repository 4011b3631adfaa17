"""Tasks by name, the original's names too."""

import pytest

from electra_tf.tasks import catalog
from tests.tasks.conftest import build_own
from tests.tasks.conftest import settings_of


@pytest.mark.parametrize("name", catalog.TASK_NAMES)
def test_every_name_has_a_task(name, tmp_path):
    if name == "own":
        task = build_own(tmp_path, "text,label\na,0\nb,1\n")
    else:
        task = catalog.build_task(name, settings_of(names=name))
    assert task.name == {"ax": "mnli"}.get(name, name)
    assert task.num_train_epochs > 0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("colla", "'colla'.*mean 'cola'.*cola, sst2, "),
        *((n, "one or more different") for n in ("", "sst,sst2", "mnli,ax")),
    ],
)
def test_unknown_names_none_and_one_twice_are_refused(names, message):
    with pytest.raises(ValueError, match=message):
        catalog.build_tasks(settings_of(names=names))
