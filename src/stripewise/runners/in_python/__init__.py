"""What the carrier ``python`` puts into interpreters: this folder is first in ``PYTHONPATH``.

The modules here belong to the program that is tuned. They import nothing of Stripewise and run on Python 3.8 and newer.
"""
