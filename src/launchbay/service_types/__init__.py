"""Service types behind one small contract: what a service instance takes, offers and does (manifest-language §8)."""
