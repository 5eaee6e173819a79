"""Machines of clouds: `provider.py` keeps the contract, `order.py` reads what is asked for, `ec2.py` talks EC2."""
