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


def test_an_unknown_name_lists_the_known_ones_and_the_nearest():
    with pytest.raises(ValueError, match="'colla'.*mean 'cola'.*cola, sst2, "):
        catalog.build_task("colla", settings_of(names="colla"))


@pytest.mark.parametrize("names", ["", "sst,sst2", "mnli,ax"])
def test_no_task_or_one_twice_is_refused(names):
    with pytest.raises(ValueError, match="one or more different tasks"):
        catalog.build_tasks(settings_of(names=names))
