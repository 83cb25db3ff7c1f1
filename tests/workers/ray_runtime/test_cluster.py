"""Clusters that a run starts for itself: nobody else can enter the directory where they keep their sockets and logs."""

import os
import stat
from pathlib import Path


def test_a_cluster_of_our_own_keeps_its_files_where_only_this_user_may_enter(ray_cluster):
    session = Path(ray_cluster._private.worker._global_node.get_session_dir_path())
    private = session.parent.parent
    assert private.name.startswith("dgs-ray-")
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert private.stat().st_uid == os.getuid()
