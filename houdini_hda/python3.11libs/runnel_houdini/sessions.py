"""Which session belongs to which node.

A session lies in the node's cached user data: it goes with the node, is not saved with the scene,
and a scene that is loaded has none. The number of the node is kept in it, so that a copy of a node
never takes over the session of the original.
"""

from __future__ import annotations

import weakref

import hou

from .session import Session

_NAME = "runnel_session"
_alive: weakref.WeakSet[Session] = weakref.WeakSet()


def of(node: hou.OpNode) -> Session:
    """The session of a node; a new one if it has none of its own."""
    kept = node.cachedUserData(_NAME)
    if isinstance(kept, Session) and kept.owner == node.sessionId() and not kept.closed:
        return kept
    session = Session(node.sessionId())
    _alive.add(session)
    node.setCachedUserData(_NAME, session)
    return session


def existing(node: hou.OpNode) -> Session | None:
    """The session of a node, if it has one."""
    kept = node.cachedUserData(_NAME)
    own = isinstance(kept, Session) and kept.owner == node.sessionId() and not kept.closed
    return kept if own else None


def drop(node: hou.OpNode) -> None:
    """End the session of a node."""
    session = existing(node)
    if session is not None:
        session.close()
    node.destroyCachedUserData(_NAME, must_exist=False)


def alive() -> list[Session]:
    """All sessions that hold something."""
    return [session for session in _alive if not session.closed]
